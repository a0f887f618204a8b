"""The order of a pass through prompts: a shuffle by hash, the same on every machine and Python."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator

KEPT = 2
"""Passes kept at a time: around the end of one, prompts of two are issued by turns."""


class Order:
    """Which prompt stands at each place of each epoch. `name` tells apart sets (domains) under one seed.

    An epoch's order is worked out when it is first asked for, about a second for a million prompts.
    """

    def __init__(self, seed: int, name: str, size: int, shuffle: bool = True) -> None:
        self._key = f"order/1/{seed}/{name}"
        self._size = size
        self._shuffle = shuffle
        self._epochs: dict[int, array[int]] = {}

    def at(self, ordinal: int, epoch: int) -> int:
        """The index of the prompt at a place. Raises IndexError for a place outside the pass."""
        if not 0 <= ordinal < self._size:
            raise IndexError(f"ordinal {ordinal} is not in 0..{self._size - 1}")
        if not self._shuffle:
            return ordinal
        if epoch not in self._epochs:
            while len(self._epochs) >= KEPT:
                del self._epochs[next(iter(self._epochs))]
            self._epochs[epoch] = array("Q", self._shuffled(epoch))
        return self._epochs[epoch][ordinal]

    def _shuffled(self, epoch: int) -> Iterator[int]:
        prefix = hashlib.blake2b(f"{self._key}/{epoch}/".encode(), digest_size=8)

        def draw(index: int) -> bytes:
            drawn = prefix.copy()
            drawn.update(b"%d" % index)
            return drawn.digest()

        yield from sorted(range(self._size), key=draw)
