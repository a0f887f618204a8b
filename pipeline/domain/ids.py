"""Group and response ids. A group's partition is part of its id: `<n>@<p>`; a response is `<n>@<p>/<slot>.<round>`."""

from __future__ import annotations

import re
from typing import NamedTuple

_GROUP = re.compile(r"(0|[1-9][0-9]{0,17})@(0|[1-9][0-9]{0,5})\Z")


class GroupId(NamedTuple):
    n: int
    partition: int


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
