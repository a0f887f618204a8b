"""The name of a payload: `tamis:<run>:{<n>@<p>}:<slot>.<round>:<nonce>`.

The nonce makes every key fresh: a response that is sampled again never overwrites the one before it. The braces are
Redis Cluster's hash tag.
"""

import re
import secrets
from typing import NamedTuple

from pipeline.domain.ids import group_id, parse_group_id

_RUN = re.compile(r"[A-Za-z0-9._-]+")
_KEY = re.compile(r"tamis:([A-Za-z0-9._-]+):\{([^{}]+)\}:(0|[1-9][0-9]*)\.(0|[1-9][0-9]*):[0-9a-f]+")


class KeyParts(NamedTuple):
    """What a payload's key says."""

    run: str
    n: int
    partition: int
    slot: int
    round: int

    @property
    def group_id(self) -> str:
        """The group's id, `<n>@<p>`."""
        return group_id(self.n, self.partition)


def checked_run(run: str) -> str:
    """`run`, if a key and a search pattern can hold it. Raises ValueError."""
    if not _RUN.fullmatch(run):
        raise ValueError(f"run {run!r} can't be part of a key; name it with letters, digits, '.', '_' and '-' only")
    return run


def fresh_key(run: str, group: str, slot: int, round: int) -> str:
    """A key that no payload has had, for one response of `group` (`<n>@<p>`)."""
    return f"tamis:{run}:{{{group}}}:{slot}.{round}:{secrets.token_hex(6)}"


def parse_key(key: str) -> KeyParts | None:
    """The key's parts, or None if it is no payload's."""
    found = _KEY.fullmatch(key)
    group = parse_group_id(found[2]) if found else None
    if not found or not group:
        return None
    return KeyParts(found[1], group.n, group.partition, int(found[3]), int(found[4]))


def pattern(run: str, partition: int | None = None) -> str:
    """The SCAN pattern for all keys of `run`, or for those of one partition."""
    return f"tamis:{run}:{{*" if partition is None else f"tamis:{run}:{{*@{partition}}}:*"
