"""The batcher: forms batches from accepted groups in ledger order, oldest first, and never from stale ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import Output, StageName, Topic
from pipeline.domain.vocabulary import (
    ExpiryReason,
    Purpose,
    ReturnReason,
    ShortReason,
    SkipReason,
    StarvationCause,
    StarvationPolicy,
)


@dataclass(slots=True)
class FormedBatch:
    """A batch that neither a checkpoint nor a return has ended. `trained`: it has its BatchTrained."""

    groups: tuple[e.BatchGroup, ...]
    trained: bool = False
    saved: bool = False


@dataclass(slots=True)
class Pool:
    """Accepted groups by domain, oldest first, and the batches under way. `version` is the policy last trained."""

    pools: dict[str, list[e.BatchGroup]]
    version: int = 0
    next_batch: int = 1
    steps_done: int = 0
    batches: dict[int, FormedBatch] = field(default_factory=dict)
    last_call: bool = False
    halted: bool = False
    closing: bool = False

    def untrained(self) -> int:
        """Batches formed and not yet trained on."""
        return len([b for b in self.batches.values() if not b.trained])


P = TypeVar("P", bound=Pool)


class Forming(Generic[P]):
    """What every batcher does with its pools."""

    name = StageName.BATCHER

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def entries(self, state: P) -> int:
        """Groups that wait and groups in batches."""
        return sum([len(w) for w in self._waiting(state)]) + sum([len(b.groups) for b in state.batches.values()])

    def step(self, state: P, event: e.Event) -> Iterator[Output]:
        """Fold one record of the ledger; form what can be formed."""
        match event:
            case e.GroupAccepted():
                yield from self._on_accepted(state, event)
            case e.TrainerStarted():
                state.version = max(state.version, event.version)
                return
            case e.BatchTrained():
                self._on_trained(state, event)
            case e.CheckpointSaved():
                for batch in event.batches:
                    state.batches[batch].saved = True
                    self._forget_if_over(state, batch)
                return
            case e.BatchReturned():
                yield from self._on_returned(state, event)
                if state.last_call:
                    yield from self._form_short(state, ShortReason.SOURCE_EXHAUSTED, event.at)
            case e.StarvationRaised(policy=StarvationPolicy.SHORT_BATCH):
                state.last_call = state.last_call or event.cause is StarvationCause.SOURCE_EXHAUSTED
                yield from self._form_short(state, _short_reason(event.cause), event.at)
            case e.RunClosing():
                state.closing = True
                for groups in self._waiting(state):
                    yield from [self._expired(state, g, ExpiryReason.RUN_OVER, None, event.at) for g in groups]
                    groups.clear()
                return
            case _:
                return
        yield from self._form(state, event.at)

    def _on_accepted(self, state: P, event: e.GroupAccepted) -> Iterator[Output]:
        group = e.BatchGroup(
            event.group_id, event.prompt.domain, event.members, 1.0, event.payload_bytes, event.oldest_version,
            event.newest_version,
        )  # fmt: skip
        if state.closing:
            yield self._expired(state, group, ExpiryReason.RUN_OVER, None, event.at)
        else:
            self._admit(state, group, event.scores)

    def _admit(self, state: P, group: e.BatchGroup, scores: e.Scores) -> None:
        state.pools[group.domain].append(group)

    def _waiting(self, state: P) -> list[list[e.BatchGroup]]:
        """Everything that is accepted and in no batch."""
        return [*state.pools.values()]

    def _on_trained(self, state: P, event: e.BatchTrained) -> None:
        state.version = event.version
        state.steps_done += 1
        state.batches[event.batch].trained = True
        self._forget_if_over(state, event.batch)

    def _forget_if_over(self, state: P, batch: int) -> None:
        """A batch is over when it is both trained and covered by a checkpoint; the two come in either order."""
        if state.batches[batch].trained and state.batches[batch].saved:
            del state.batches[batch]

    def _on_returned(self, state: P, event: e.BatchReturned) -> Iterator[Output]:
        batch = state.batches.pop(event.batch)
        state.steps_done -= batch.trained
        state.halted = state.halted or event.reason is ReturnReason.FAILED
        lost = set(event.lost)
        for group in batch.groups:
            if group.group_id in lost:
                yield self._expired(state, group, ExpiryReason.PAYLOAD_MISSING, None, event.at)
            elif state.closing:
                yield self._expired(state, group, ExpiryReason.RUN_OVER, None, event.at)
        if not state.closing:
            for domain, pool in state.pools.items():
                pool[:0] = [g for g in batch.groups if g.domain == domain and g.group_id not in lost]

    # -------------------------------------------------------------------------------------------------------- forming

    def _form(self, state: P, at: int) -> Iterator[Output]:
        while self._may_form(state):
            if all(len(state.pools[d.name]) >= d.quota for d in self.rules.domains):
                stale = list(self._expire_stale(state, self._waiting(state), at))
                yield from stale
                if not stale:
                    yield self._take(state, None, at)
            else:
                return

    def _may_form(self, state: P) -> bool:
        untrained = state.untrained()
        return (
            not (state.closing or state.halted)
            and untrained <= self.rules.prefetch
            and state.steps_done + untrained < self.rules.steps
        )

    def _form_short(self, state: P, why: ShortReason, at: int) -> Iterator[Output]:
        """One batch from what the pools have; with nothing in them the step is skipped. While the trainer has a batch,
        it is not starving: the request crossed with one."""
        if state.untrained() or not self._may_form(state):
            return
        yield from self._expire_stale(state, self._waiting(state), at)
        if any(state.pools.values()):
            yield self._take(state, why, at)
        else:
            yield self._skip(state, SkipReason.NOTHING_ACCEPTED, at)

    def _skip(self, state: P, why: SkipReason, at: int) -> Output:
        state.steps_done += 1
        state.next_batch += 1
        return Output(Topic.LEDGER, 0, e.BatchSkipped(state.next_batch - 1, why, at))

    def _expire_stale(self, state: P, among: list[list[e.BatchGroup]], at: int) -> Iterator[Output]:
        """Groups that are too old for the batch that would be formed now; a group without a version is too old."""
        follows = state.version + state.untrained()
        for groups in among:
            stale = [g for g in groups if self._is_stale(g, follows)]
            groups[:] = [g for g in groups if not self._is_stale(g, follows)]
            for group in stale:
                yield self._expired(state, group, ExpiryReason.STALE, follows - group.oldest_version, at)

    def _is_stale(self, group: e.BatchGroup, follows: int) -> bool:
        return group.oldest_version < 0 or follows - group.oldest_version > self.rules.max_staleness

    def _take(self, state: P, short: ShortReason | None, at: int) -> Output:
        groups: list[e.BatchGroup] = []
        for domain in self.rules.domains:
            pool = state.pools[domain.name]
            groups += pool[: domain.quota]
            del pool[: domain.quota]
        return self._formed(state, tuple(groups), len(groups), 1.0, short, at)

    def _formed(
        self, state: P, groups: tuple[e.BatchGroup, ...], candidates: int, scale: float, short: ShortReason | None,
        at: int,
    ) -> Output:  # fmt: skip
        wanted = sum([d.quota for d in self.rules.domains])
        formed = e.BatchFormed(
            state.next_batch, groups, candidates, scale, state.version + state.untrained(),
            short if len(groups) < wanted else None, at,
        )  # fmt: skip
        state.batches[state.next_batch] = FormedBatch(formed.groups)
        state.next_batch += 1
        return Output(Topic.LEDGER, 0, formed)

    def _expired(self, state: P, group: e.BatchGroup, reason: ExpiryReason, staleness: int | None, at: int) -> Output:
        event = e.GroupExpired(
            group.group_id, group.domain, Purpose.TRAIN, reason, group.members, group.payload_bytes, staleness, at
        )
        return Output(Topic.LEDGER, 0, event)


class Batcher(Forming[Pool]):
    """Step of the batcher over the ledger, without a selection."""

    state_type: type[Any] | None = Pool

    def initial(self, partition: int) -> Pool:
        """Empty pools, one for each domain."""
        return Pool({d.name: [] for d in self.rules.domains})


def _short_reason(cause: StarvationCause) -> ShortReason:
    return ShortReason.SOURCE_EXHAUSTED if cause is StarvationCause.SOURCE_EXHAUSTED else ShortReason.STARVATION
