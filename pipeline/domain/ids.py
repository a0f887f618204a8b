"""Names of runs, ids of groups and responses. A group's partition is part of its id: `<n>@<p>`; a response is
`<n>@<p>/<slot>.<round>`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

RUN_RULE: Final = "1 to 63 of a-z, 0-9, _ and -, the first a letter or digit"
_RUN = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
_GROUP = re.compile(r"(0|[1-9][0-9]{0,17})@(0|[1-9][0-9]{0,5})\Z")


class GroupId(NamedTuple):
    n: int
    partition: int


def is_run_name(text: str) -> bool:
    """Whether a run may be called that: its name is a part of names in Kafka and Redis, and of paths."""
    return _RUN.match(text) is not None


def group_id(n: int, partition: int) -> str:
    """The text form of a group's id."""
    return f"{n}@{partition}"


def parse_group_id(text: str) -> GroupId | None:
    """The id's parts, or None if the text is not a group's id."""
    found = _GROUP.match(text)
    return GroupId(int(found[1]), int(found[2])) if found else None


def partition_of(text: str) -> int:
    """The partition in an id that the scheduler made; anything else is a broken invariant."""
    return int(text[text.index("@") + 1 :])


def number_of(text: str) -> int:
    """The counter in an id that the scheduler made."""
    return int(text[: text.index("@")])


def response_id(group: str, slot: int, round: int) -> str:
    """The text form of a response's id."""
    return f"{group}/{slot}.{round}"
