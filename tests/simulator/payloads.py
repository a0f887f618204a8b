"""Redis, as far as decisions depend on it: which payload keys exist."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.domain.ids import parse_group_id


class Payloads:
    """Keys in the order of writing. `lost` are those that vanished by a fault, `dropped` those that were unlinked."""

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}
        self.lost: dict[str, None] = {}
        self.dropped: dict[str, None] = {}
        self.written = 0

    def write(self, group: str, slot: int, round: int) -> str:
        key = f"tamis:sim:{{{group}}}:{slot}.{round}:{self.written}"
        self.written += 1
        self.keys[key] = None
        return key

    def unlink(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self.keys:
                del self.keys[key]
            self.dropped[key] = None

    def lose(self, key: str) -> None:
        del self.keys[key]
        self.lost[key] = None


def group_of(key: str) -> str:
    return key[key.index("{") + 1 : key.index("}")]


def partition_of_key(key: str) -> int:
    found = parse_group_id(group_of(key))
    return found.partition if found else -1
