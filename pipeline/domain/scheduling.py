"""The scheduler: which prompts are open, what answers an ended group, evaluation, and the run's end.

Each ledger record changes the state, an ended training group is answered at once, and then what there is room for is
opened. Room and issuing are in issuing.py, evaluations in evaluation.py, starvation in starvation.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.domain import evaluation, starvation
from pipeline.domain import events as e
from pipeline.domain.ids import partition_of
from pipeline.domain.issuing import Issuer, Lineage
from pipeline.domain.lead import updated_acceptance
from pipeline.domain.ports import Prompts
from pipeline.domain.rules import DomainRules, Rules
from pipeline.domain.run_state import Batch, Live, Phase, Run, Share
from pipeline.domain.topology import InvariantBroken, Output, StageName, Topic
from pipeline.domain.vocabulary import (
    Category,
    Outcome,
    Purpose,
    Reason,
    StarvationCause,
    StarvationPolicy,
    WaiverReason,
)


class Scheduler:
    """Step of the scheduler over the ledger."""

    name = StageName.SCHEDULER
    state_type: type[Any] | None = Run

    def __init__(
        self, rules: Rules, prompts: Prompts, eval_prompts: Prompts | None, eval_domains: tuple[str, ...] = ()
    ) -> None:
        self.rules = rules
        self.issuer = Issuer(rules, prompts)
        self.eval_issuer = Issuer(rules, eval_prompts or prompts)
        self.spends = rules.selection is not None and not rules.selection.refill
        self.eval_places = evaluation.plan(rules, eval_prompts, eval_domains)

    def initial(self, partition: int) -> Run:
        """Nothing is open, no policy is known."""
        return Run({d.name: Share(drawn=d.drawn) for d in self.rules.domains}, [0] * self.rules.partitions)

    def entries(self, state: Run) -> int:
        """Live groups."""
        return len(state.live)

    def step(self, state: Run, event: e.Event) -> Iterator[Output]:
        """Fold one record of the ledger."""
        if state.finished:
            return
        at: int = getattr(event, "at", 0)
        yield from self._take(state, event)
        if state.closing is None:
            yield from self._decide(state, at)
        if state.closing is not None and not state.live and not state.batches:
            state.finished = True
            finished = e.RunFinished(state.closing, state.steps_done, at)
            yield Output(Topic.LEDGER, 0, finished)
            for partition in range(self.rules.partitions):
                yield Output(Topic.PROMPTS, partition, finished)

    def _take(self, state: Run, event: e.Event) -> Iterator[Output]:
        match event:
            case e.Tick():
                yield from self._on_tick(state, event)
            case e.GroupAccepted():
                self._on_accepted(state, event)
            case e.GroupRejected():
                yield from self._on_rejected(state, event)
            case e.GroupDeselected() if self.spends and state.closing is None:
                yield from self._on_spent(state, event)
            case e.GroupExpired() | e.GroupDeselected():
                yield from self._on_ended_unused(state, event)
            case e.GroupEvaluated():
                self._leave_open(state, event.group_id)
                if state.closing is None:
                    evaluation.count(state, event)
            case e.BatchFormed():
                self._on_formed(state, event)
            case e.BatchSkipped():
                state.short_batch_asked = False
                self._on_step(state)
            case e.BatchTrained():
                yield from self._on_trained(state, event)
            case e.CheckpointSaved():
                self._on_saved(state, event)
            case e.BatchReturned():
                self._on_returned(state, event)
            case e.StarvationRaised(policy=StarvationPolicy.RAISE):
                yield from self._close(state, Outcome.STARVED, f"domain {event.domain}: {event.cause}", event.at)
            case e.TrainerStarted(incarnation=1):
                yield from self._publish(state, e.PolicyPublished(event.version, event.path, event.sha256, event.at))
            case e.StopRequested():
                yield from self._close(state, Outcome.STOPPED, f"asked by {event.by}", event.at)
            case e.StageFailed():
                yield from self._close(state, Outcome.FAILED, f"{event.stage}: {event.detail}", event.at)
            case _:
                return

    def _on_tick(self, state: Run, event: e.Tick) -> Iterator[Output]:
        """Fold the wall clock into the run's own time; a pause or a clock set back counts for little or nothing."""
        if state.last_tick is not None:
            passed = min(max(event.at - state.last_tick, 0), 2 * self.rules.tick_ms)
            state.run_ms += passed
            for domain in self.rules.domains:
                if state.shares[domain.name].open and not state.evaluations and self._hungry(state, domain):
                    state.shares[domain.name].idle_ms += passed
        state.last_tick = event.at
        for partition in range(self.rules.partitions):
            yield Output(Topic.ROLLOUTS, partition, e.Tick(event.at, state.run_ms))

    # ------------------------------------------------------------------------------------------------ groups that end

    def _on_accepted(self, state: Run, event: e.GroupAccepted) -> None:
        group = self._leave_open(state, event.group_id)
        share = state.shares[group.prompt.domain]
        self.issuer.note_pass_rate(state, group.prompt, event.scores)
        share.acceptance = updated_acceptance(share.acceptance, True)
        if self._hungry(state, self.rules.domain(group.prompt.domain)):
            starvation.note_accepted(share)
            starvation.note_verdict(share, True, self.rules.starvation)
        group.phase = Phase.POOL
        group.payload_bytes = event.payload_bytes
        state.live[event.group_id] = group
        share.pool += 1
        state.held_bytes += event.payload_bytes
        state.largest_payload = max(state.largest_payload, event.largest_payload)

    def _on_rejected(self, state: Run, event: e.GroupRejected) -> Iterator[Output]:
        if event.group_id not in state.live and event.reason is Reason.UNDECODABLE:
            return  # the unreadable record was a copy: its group has ended already
        group = self._leave_open(state, event.group_id)
        if group.purpose is Purpose.EVAL:
            evaluation.count_lost(state, self.rules.evaluation.samples)
            return
        self.issuer.note_pass_rate(state, group.prompt, event.scores)
        self._note_rejected(state, group.prompt.domain, event)
        state.largest_payload = max(state.largest_payload, event.largest_payload)
        yield from self._answer(state, event.group_id, group, self.rules.replacement, event.at)

    def _note_rejected(self, state: Run, domain: str, event: e.GroupRejected) -> None:
        """Only a filter's verdict counts as one; that a group ended counts in any case."""
        share = state.shares[domain]
        by_filter = event.category is not Category.SYSTEM and event.filter != StageName.ASSEMBLER
        if by_filter:
            share.acceptance = updated_acceptance(share.acceptance, False)
        if self._hungry(state, self.rules.domain(domain)):
            starvation.note_rejected(share, event)
            if by_filter:
                starvation.note_verdict(share, False, self.rules.starvation)

    def _hungry(self, state: Run, domain: DomainRules) -> bool:
        """Whether the trainer could be waiting for this domain."""
        return state.untrained() == 0 and state.shares[domain.name].pool < self.rules.ready(domain)

    def _on_ended_unused(self, state: Run, event: e.GroupExpired | e.GroupDeselected) -> Iterator[Output]:
        group = state.live[event.group_id]
        if group.phase is Phase.OPEN:
            self._leave_open(state, event.group_id)
        else:
            self._leave_pool(state, event.group_id, group)
        if group.purpose is Purpose.TRAIN:
            yield from self._answer(state, event.group_id, group, self.rules.expired_replacement, event.at)

    def _on_spent(self, state: Run, event: e.GroupDeselected) -> Iterator[Output]:
        """Without refill a window is one step: what it leaves out isn't made up for, and counts until the next step."""
        self._move(state, event.group_id, Phase.POOL, Phase.SPENT)
        state.held_bytes -= event.payload_bytes
        yield Output(Topic.LEDGER, 0, e.ReplacementWaived(event.group_id, event.domain, WaiverReason.SURPLUS, event.at))

    def _forget_spent(self, state: Run) -> None:
        if self.spends:
            for gid in [gid for gid, group in state.live.items() if group.phase is Phase.SPENT]:
                state.shares[state.live.pop(gid).prompt.domain].formed -= 1

    def _leave_open(self, state: Run, gid: str) -> Live:
        group = state.live.get(gid)
        if group is None or group.phase is not Phase.OPEN:
            raise InvariantBroken(f"group {gid} has an ending, but it is not open")
        del state.live[gid]
        state.open_in[partition_of(gid)] -= 1
        if group.purpose is Purpose.TRAIN:
            state.shares[group.prompt.domain].open -= 1
        return group

    def _leave_pool(self, state: Run, gid: str, group: Live) -> None:
        if group.phase is not Phase.POOL:
            raise InvariantBroken(f"group {gid} ends unused, but it is {group.phase}")
        del state.live[gid]
        state.shares[group.prompt.domain].pool -= 1
        state.held_bytes -= group.payload_bytes

    def _answer(self, state: Run, gid: str, group: Live, policy: str, at: int) -> Iterator[Output]:
        """Exactly one answer for each training group that ended unused: a replacement, or why there is none."""
        domain = self.rules.domain(group.prompt.domain)
        line = Lineage(group.root, gid, group.attempt + 1)
        reason = self._waiver(state, domain, group)
        if reason is None and policy != "next_prompt":
            yield from self.issuer.train(state, self.issuer.at(group.prompt), line, at)
            return
        if reason is None:
            drawn = yield from self.issuer.draw(state, domain, at)
            if drawn is not None and drawn.problem is None:
                yield from self.issuer.train(state, drawn, line, at)
                return
            reason = WaiverReason.SOURCE_EXHAUSTED if drawn is None else WaiverReason.RUN_COMPLETE
            yield Output(Topic.LEDGER, 0, e.ReplacementWaived(gid, domain.name, reason, at))
            if drawn is not None:
                yield from self._close(state, Outcome.FAILED, f"prompt {drawn.ref.id}: {drawn.problem}", at)
            return
        yield Output(Topic.LEDGER, 0, e.ReplacementWaived(gid, domain.name, reason, at))

    def _waiver(self, state: Run, domain: DomainRules, group: Live) -> WaiverReason | None:
        if state.closing is not None:
            return WaiverReason.RUN_COMPLETE
        if state.last_call >= 0:
            return WaiverReason.SOURCE_EXHAUSTED
        if not self.issuer.room(state, domain):
            return WaiverReason.SURPLUS
        if self.rules.max_attempts and group.attempt >= self.rules.max_attempts:
            return WaiverReason.ATTEMPTS_EXHAUSTED
        return None

    # -------------------------------------------------------------------------------------------------------- batches

    def _on_formed(self, state: Run, event: e.BatchFormed) -> None:
        state.short_batch_asked = False
        state.batches[event.batch] = Batch([g.group_id for g in event.groups])
        for group in event.groups:
            self._move(state, group.group_id, Phase.POOL, Phase.FORMED)
        for share in state.shares.values():
            share.progressed()

    def _on_trained(self, state: Run, event: e.BatchTrained) -> Iterator[Output]:
        batch = state.batches[event.batch]
        batch.trained = True
        for gid in batch.groups:
            self._move(state, gid, Phase.FORMED, Phase.TRAINED)
        self._on_step(state)
        self._forget_if_over(state, event.batch)
        yield from self._publish(state, e.PolicyPublished(event.version, event.path, event.sha256, event.at))

    def _on_saved(self, state: Run, event: e.CheckpointSaved) -> None:
        for number in event.batches:
            state.batches[number].saved = True
            self._forget_if_over(state, number)

    def _on_returned(self, state: Run, event: e.BatchReturned) -> None:
        self._forget_spent(state)
        batch = state.batches.pop(event.batch)
        state.steps_done -= batch.trained
        state.last_call = min(state.last_call, state.steps_done)
        for gid in batch.groups:
            self._move(state, gid, Phase.TRAINED if batch.trained else Phase.FORMED, Phase.POOL)

    def _on_step(self, state: Run) -> None:
        state.steps_done += 1
        self._forget_spent(state)
        for share in state.shares.values():
            share.drawn_this_step = 0
            share.exhausted = False
            share.progressed()

    def _move(self, state: Run, gid: str, source: Phase, target: Phase) -> None:
        group = state.live[gid]
        if group.phase is not source:
            raise InvariantBroken(f"group {gid} is {group.phase}, expected {source}")
        group.phase = target
        share = state.shares[group.prompt.domain]
        share.pool += (target is Phase.POOL) - (source is Phase.POOL)
        share.formed += (target in (Phase.FORMED, Phase.SPENT)) - (source is Phase.FORMED)

    def _forget_if_over(self, state: Run, number: int) -> None:
        """A batch is over when it is both trained and covered by a checkpoint; the two come in either order."""
        batch = state.batches[number]
        if batch.trained and batch.saved:
            for gid in batch.groups:
                state.held_bytes -= state.live.pop(gid).payload_bytes
            del state.batches[number]

    def _publish(self, state: Run, policy: e.PolicyPublished) -> Iterator[Output]:
        state.policy = policy
        for partition in range(self.rules.partitions):
            yield Output(Topic.PROMPTS, partition, policy)

    # ------------------------------------------------------------------------------------------- opening, and the end

    def _decide(self, state: Run, at: int) -> Iterator[Output]:
        """Everything that the state calls for now, while the run is not closing."""
        if state.policy is None:
            return
        called = 0 <= state.last_call < state.steps_done and not self._has_kept(state)
        over = state.steps_done >= self.rules.steps or called
        yield from evaluation.start_if_due(state, self.rules, len(self.eval_places), over, at)
        yield from evaluation.finish(state, at)
        yield from evaluation.open_prompts(state, self.rules, self.eval_issuer, self.eval_places, at)
        if over:
            if not state.evaluations:
                yield from self._close(state, Outcome.COMPLETED, f"{state.steps_done} steps done", at)
        elif not (state.evaluations and state.evaluations[0].step == 0):
            yield from self._fill(state, at)
            if state.closing is None:
                yield from self._starve(state, at)

    def _has_kept(self, state: Run) -> bool:
        """Whether, after the last call, the pool may have more than one batch: a window with refill may keep that."""
        waiting = state.untrained() + sum([s.pool for s in state.shares.values()])
        return self.rules.selection is not None and self.rules.selection.refill and waiting > 0

    def _fill(self, state: Run, at: int) -> Iterator[Output]:
        """Open training groups while there is room, the domains in turn."""
        domains = self.rules.domains
        idle = 0
        while idle < len(domains):
            domain = domains[state.turn % len(domains)]
            state.turn = (state.turn + 1) % len(domains)
            idle += 1
            if not self.issuer.room(state, domain):
                continue
            drawn = yield from self.issuer.draw(state, domain, at)
            if drawn is None:
                continue
            if drawn.problem is not None:
                yield from self._close(state, Outcome.FAILED, f"prompt {drawn.ref.id}: {drawn.problem}", at)
                return
            yield from self.issuer.train(state, drawn, Lineage(), at)
            idle = 0

    def _starve(self, state: Run, at: int) -> Iterator[Output]:
        if state.short_batch_asked:
            return
        for domain in self.rules.domains:
            share = state.shares[domain.name]
            cause = starvation.cause_of(share, self.rules.starvation)
            if cause is not None:
                policy = self.rules.starvation.policy
                yield Output(Topic.LEDGER, 0, starvation.raised(domain.name, share, cause, policy, at))
                share.progressed()
                state.short_batch_asked = policy is StarvationPolicy.SHORT_BATCH
                if policy is StarvationPolicy.RAISE:
                    yield from self._close(state, Outcome.STARVED, f"domain {domain.name}: {cause}", at)
                if policy is not StarvationPolicy.WAIT:
                    return
            elif self._is_dry(state, domain):
                state.last_call, state.short_batch_asked = state.steps_done, True
                cause, policy = StarvationCause.SOURCE_EXHAUSTED, StarvationPolicy.SHORT_BATCH
                yield Output(Topic.LEDGER, 0, starvation.raised(domain.name, share, cause, policy, at))
                return

    def _is_dry(self, state: Run, domain: DomainRules) -> bool:
        """Whether the domain's source ended within a step, nothing is open any more, and its batch can't be filled."""
        dry = state.shares[domain.name].exhausted and self._hungry(state, domain) and state.open_training() == 0
        return dry and state.last_call < 0 and not state.evaluations

    def _close(self, state: Run, outcome: Outcome, detail: str, at: int) -> Iterator[Output]:
        if state.closing is not None:
            return
        state.closing = outcome
        self._forget_spent(state)
        yield Output(Topic.LEDGER, 0, e.RunClosing(outcome, detail, at))
        for gid, group in state.live.items():
            if group.phase is Phase.OPEN:
                yield Output(Topic.ROLLOUTS, partition_of(gid), e.GroupCancelled(gid, at))
        yield from evaluation.cut(state, at)
