"""What the reapers do to Redis: unlink what their records say is dropped, and sweep what nobody will ever name.

Both happen before the transaction that records them; a crash between repeats an UNLINK, which is harmless.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from pipeline.domain import events as e
from pipeline.domain.ids import group_id
from pipeline.domain.reaping import DiscardReaper, Discards, Held, Reaper
from pipeline.domain.topology import Output, Topic
from pipeline.domain.vocabulary import DropReason
from pipeline.store.errors import StoreUnreachable
from pipeline.store.keys import parse_key
from pipeline.store.payloads import PayloadStore
from pipeline.store.sweep import sweep, sweep_partition

SWEEP_EVERY_S = 60.0
LOOK_EVERY_S = 5.0


class Unlinker:
    """Drops keys; waits for a Redis that doesn't answer, until the process is told to stop."""

    def __init__(self, store: PayloadStore, stopping: Callable[[], bool], heartbeat: Callable[[], None]) -> None:
        self._store, self._stopping, self._heartbeat = store, stopping, heartbeat

    def before_commit(self, outputs: Sequence[Output]) -> None:
        """Unlink the keys that these outputs name. Raises StoreUnreachable if the process has to stop before that."""
        keys = [key for o in outputs if isinstance(o.event, e.PayloadsDropped) for key in o.event.keys]
        if keys:
            self.patiently(lambda: self._store.drop(keys))

    def patiently(self, work: Callable[[], object]) -> None:
        """Do it as soon as Redis answers."""
        while True:
            try:
                work()
                return
            except StoreUnreachable:
                if self._stopping():
                    raise
                self._heartbeat()
                time.sleep(0.2)


class SweepingReaper(Reaper):
    """The reaper, with an eye on its own state, which the sweep needs: what lives is left alone."""

    held: Held | None = None

    def step(self, state: Held, event: e.Event) -> Iterator[Output]:
        """The reaper's step; remembers the state that it changes."""
        self.held = state
        return super().step(state, event)


class Sweeps:
    """The sweep of the whole run, as facts for the loop: at the start, every minute, and when Redis was started anew,
    the keys of groups that ended, or that a generator wrote and never published."""

    def __init__(self, store: PayloadStore, stage: SweepingReaper, now: Callable[[], float] = time.monotonic) -> None:
        self._store, self._stage, self._now = store, stage, now
        self._next = self._look_again = 0.0
        self._server: str | None = None

    def facts(self) -> Sequence[Output]:
        """What a sweep dropped, when one was due. A Redis that doesn't answer is asked again later."""
        held, now = self._stage.held, self._now()
        if held is None or held.highest < 0 or now < self._look_again:
            return ()
        self._look_again = now + LOOK_EVERY_S
        try:
            server = self._store.server_run_id()
            if server == self._server and now < self._next:
                return ()
            self._server, self._next = server, now + SWEEP_EVERY_S
            return swept(sweep(self._store, lambda n, p: group_id(n, p) in held.live, held.highest))
        except StoreUnreachable:
            self._server = None
            return ()


class LastSweep(DiscardReaper):
    """The reaper of single responses; when the run is finished in its partition it leaves nothing there."""

    def __init__(self, store: PayloadStore, unlinker: Unlinker) -> None:
        self._store, self._unlinker = store, unlinker
        self._swept: list[str] = []

    def step(self, state: Discards, event: e.Event) -> Iterator[Output]:
        """The reaper's step, after the sweep of a partition that is over."""
        if isinstance(event, e.RunFinished):
            self._unlinker.patiently(lambda: self._swept.extend(sweep_partition(self._store, state.partition)))
        return super().step(state, event)

    def facts(self) -> Sequence[Output]:
        """What the last sweeps dropped."""
        found, self._swept = self._swept, []
        return swept(found)


def swept(keys: Sequence[str]) -> list[Output]:
    """The records of keys that a sweep dropped, group by group."""
    by_group: dict[tuple[str, int], list[str]] = {}
    for key in keys:
        parts = parse_key(key)
        if parts is not None:
            by_group.setdefault((parts.group_id, parts.partition), []).append(key)
    at = time.time_ns() // 1_000_000
    return [
        Output(Topic.DROPS, partition, e.PayloadsDropped(group, tuple(names), DropReason.SWEPT, at))
        for (group, partition), names in by_group.items()
    ]
