"""The batcher of a run with a selection: accepted groups stand until they are a window, and some of it is trained on.

With refill the kept groups join the pool, from which batches are formed as ever. Without it a window is one step: what
it keeps is a batch, and nothing kept is a step skipped.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from pipeline.domain import events as e
from pipeline.domain import starvation
from pipeline.domain.batching import Batcher, Forming, Pool
from pipeline.domain.rules import Rules, SelectionSettings
from pipeline.domain.selection.custom import Selectors
from pipeline.domain.topology import MembersCodec, Output, Topic
from pipeline.domain.vocabulary import ExpiryReason, ShortReason, SkipReason, StarvationCause, StarvationPolicy
from pipeline.domain.windows import Selecting, Windows


@dataclass(slots=True)
class WindowPool(Pool):
    """Groups stand in `windows` first; the pool has those that were kept."""

    windows: Windows = field(default_factory=Windows)


def batcher(
    rules: Rules, members: MembersCodec | None = None, selectors: Selectors | None = None
) -> Batcher | WindowBatcher:
    """The batcher of a run. A selection by the user's own code needs `members`, and `selectors` to build it."""
    if rules.selection is None:
        return Batcher(rules)
    return WindowBatcher(rules, rules.selection, Selecting(rules, rules.selection, members, selectors))


class WindowBatcher(Forming[WindowPool]):
    """Step of the batcher over the ledger, with a selection."""

    state_type: type[Any] | None = WindowPool

    def __init__(self, rules: Rules, settings: SelectionSettings, selecting: Selecting) -> None:
        super().__init__(rules)
        self.settings = settings
        self.selecting = selecting
        self.domain = rules.domains[0].name

    def initial(self, partition: int) -> WindowPool:
        """An empty pool, and nothing stands."""
        return WindowPool({self.domain: []})

    def step(self, state: WindowPool, event: e.Event) -> Iterator[Output]:
        """Fold one record of the ledger; select and form what can be."""
        if not isinstance(event, e.GroupRejected):
            yield from super().step(state, event)
        elif event.prompt.domain == self.domain:
            starvation.note_rejected(state.windows.tally, event)

    def _admit(self, state: WindowPool, group: e.BatchGroup, scores: e.Scores) -> None:
        state.windows.stand(group, scores)

    def _waiting(self, state: WindowPool) -> list[list[e.BatchGroup]]:
        return [*super()._waiting(state), state.windows.standing]

    def _forget_if_over(self, state: WindowPool, batch: int) -> None:
        groups = state.batches[batch].groups
        super()._forget_if_over(state, batch)
        if batch not in state.batches:
            for group in groups:
                state.windows.forget(group.group_id)

    def _expired(
        self, state: WindowPool, group: e.BatchGroup, reason: ExpiryReason, staleness: int | None, at: int
    ) -> Output:  # fmt: skip
        state.windows.forget(group.group_id)
        return super()._expired(state, group, reason, staleness, at)

    # -------------------------------------------------------------------------------------------------------- forming

    def _form(self, state: WindowPool, at: int) -> Iterator[Output]:
        yield from self._select_whole(state, at)
        while self._may_form(state) and self._is_filled(state):
            stale = list(self._expire_stale(state, self._waiting(state), at))
            yield from stale
            if not stale:
                yield self._take(state, None, at)
            yield from self._select_whole(state, at)
        if state.last_call and self._may_form(state):
            yield from self._expire_stale(state, self._waiting(state), at)
            if any(self._waiting(state)):
                yield from self._form_short(state, ShortReason.SOURCE_EXHAUSTED, at)

    def _is_filled(self, state: WindowPool) -> bool:
        """Without refill the pool has what one window kept, and that is a batch."""
        pool = state.pools[self.domain]
        return len(pool) >= (self.rules.domains[0].quota if self.settings.refill else 1)

    def _select_whole(self, state: WindowPool, at: int) -> Iterator[Output]:
        """Select from each whole window; without refill only when a batch may be formed, since it is one."""
        standing, size = state.windows.standing, self.settings.window
        while len(standing) >= size and not (state.closing or state.halted):
            if not self.settings.refill and (state.pools[self.domain] or not self._may_form(state)):
                return
            stale = list(self._expire_stale(state, [standing], at))
            yield from stale
            if not stale:
                cause = yield from self._select(state, size, at)
                yield from self._raise(state, cause, at)

    def _select(self, state: WindowPool, size: int, at: int) -> Generator[Output, None, StarvationCause | None]:
        """Spend one window; why selecting should stop, if it should."""
        spent = yield from self.selecting.spend(state.windows, size, at)
        state.pools[self.domain] += spent.kept
        state.halted = state.halted or spent.ends_run
        if not (spent.kept or self.settings.refill):
            yield self._skip(state, SkipReason.EMPTY_AFTER_FILTER, at)
        return spent.cause

    def _raise(self, state: WindowPool, cause: StarvationCause | None, at: int) -> Iterator[Output]:
        if cause is None:
            return
        policy = self._policy(cause)
        yield Output(Topic.LEDGER, 0, starvation.raised(self.domain, state.windows.tally, cause, policy, at))
        state.halted = state.halted or policy is StarvationPolicy.RAISE
        if policy is StarvationPolicy.SHORT_BATCH:
            yield from self._form_short(state, ShortReason.STARVATION, at)

    def _policy(self, cause: StarvationCause) -> StarvationPolicy:
        """A short batch helps only where windows keep nothing and the pool has something; else the run goes on."""
        policy = self.rules.starvation.policy
        helps = self.settings.refill and cause is StarvationCause.EMPTY_SELECTIONS
        return policy if helps or policy is StarvationPolicy.RAISE else StarvationPolicy.WAIT

    def _form_short(self, state: WindowPool, why: ShortReason, at: int) -> Iterator[Output]:
        """An unfinished window counts as one. Without refill what a returned batch left comes before it."""
        if state.untrained() or not self._may_form(state):
            return
        yield from self._expire_stale(state, self._waiting(state), at)
        steps, unfinished = state.steps_done, len(state.windows.standing)
        if unfinished and (self.settings.refill or not state.pools[self.domain]):
            yield from self._select(state, unfinished, at)
        if state.pools[self.domain]:
            yield self._take(state, why, at)
        elif state.steps_done == steps:
            yield self._skip(state, SkipReason.EMPTY_AFTER_FILTER if unfinished else SkipReason.NOTHING_ACCEPTED, at)

    def _take(self, state: WindowPool, short: ShortReason | None, at: int) -> Output:
        pool = state.pools[self.domain]
        size = self.rules.domains[0].quota if self.settings.refill else len(pool)
        groups, pool[:] = pool[:size], pool[size:]
        weighed, candidates, scale = self.selecting.batch(state.windows, groups)
        state.windows.tally.progressed()
        why = short or self.selecting.shortness(state.windows, groups)
        return self._formed(state, weighed, candidates, scale, why, at)
