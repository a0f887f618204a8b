"""Which records of one partition are finished, whatever order they finish in.

What is committed is the lowest unfinished offset, and a bitmap of the finished ones above it. Only records that the
bitmap can name may be started: a result of any other would be made again after a restart.
"""

from __future__ import annotations

from collections import deque

from pipeline.log.metadata import MAX_DONE, OffsetMetadata, pack_done, unpack_done


class Tracker:
    """A partition that this process has. `position` is the lowest unfinished offset, `unfinished` counts records;
    `pinned` is the offset of the last record that a restart must see first; `ends` counts the RunFinished that were
    copied on, `end_at` is where one waits. Once `lost`, nothing of it may be committed.

    The serving thread reads `lost`, and asks `may_start`; the rest is the loop's."""

    __slots__ = (
        "_arrived",
        "_finished",
        "_next",
        "end_at",
        "ends",
        "lost",
        "partition",
        "pinned",
        "position",
        "unfinished",
    )

    def __init__(self, partition: int, position: int, metadata: OffsetMetadata) -> None:
        self.partition = partition
        self.position = position
        self.pinned = metadata.policy
        self.ends = metadata.end
        self.end_at: int | None = None
        self.lost = False
        self.unfinished = 0
        self._next = position
        self._arrived: deque[int] = deque()
        self._finished = unpack_done(position, metadata.done)

    def arrive(self, offset: int) -> bool:
        """Note a record, in order; False if it was finished before."""
        self._arrived.append(offset)
        self._next = offset + 1
        if offset in self._finished:
            return False
        self.unfinished += 1
        return True

    def finish(self, offset: int) -> None:
        """Note that a record needs no more work. Of one below the position nothing has to be noted."""
        if offset >= self.position and offset not in self._finished:
            self._finished.add(offset)
            self.unfinished -= offset < self._next

    def advance(self) -> int:
        """Move the position up to the lowest unfinished record, or behind all that arrived; returns it."""
        arrived, finished = self._arrived, self._finished
        while arrived and arrived[0] in finished:
            finished.discard(arrived.popleft())
        self.position = arrived[0] if arrived else self._next
        return self.position

    def may_start(self, offset: int) -> bool:
        """Whether the bitmap could name the record once it is finished; the lowest unfinished one always may."""
        return offset - self.position < MAX_DONE

    @property
    def is_full(self) -> bool:
        """Whether records have arrived that may not be started yet."""
        return self._next - self.position > MAX_DONE

    def metadata(self) -> str:
        """What goes with the committed position."""
        reach = self.position + MAX_DONE
        done = pack_done(self.position, (o for o in self._finished if self.position <= o < reach))
        return OffsetMetadata(policy=self.pinned, end=self.ends, done=done).format()
