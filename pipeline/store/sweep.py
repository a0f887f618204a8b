"""Finding payloads that nobody will drop by name: written by a generator that died before it could publish them."""

from collections.abc import Callable

from pipeline.store.keys import KeyParts, parse_key
from pipeline.store.payloads import PayloadStore


def sweep(store: PayloadStore, is_live: Callable[[int, int], bool], below: Callable[[int], int] | int) -> list[str]:
    """Drop the keys of groups (n, partition) that aren't live and whose n is less than `below`; the keys dropped.

    `below` is the highest n opened, or gives it for a partition: later groups may be open without our knowing it yet.
    """

    def orphaned(key: KeyParts) -> bool:
        limit = below if isinstance(below, int) else below(key.partition)
        return key.n < limit and not is_live(key.n, key.partition)

    return _drop_where(store, orphaned, None)


def sweep_partition(store: PayloadStore, partition: int) -> list[str]:
    """Drop all keys of one partition of an ended run; the keys dropped."""
    return _drop_where(store, lambda key: key.partition == partition, partition)


def _drop_where(store: PayloadStore, wanted: Callable[[KeyParts], bool], partition: int | None) -> list[str]:
    dropped: dict[str, None] = {}
    for keys in store.scan(partition):
        found = [key for key in keys if (parts := parse_key(key)) and wanted(parts)]
        store.drop(found)
        dropped.update(dict.fromkeys(found))
    return list(dropped)
