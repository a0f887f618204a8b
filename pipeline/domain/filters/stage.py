"""The filter stage: accepts or rejects each assembled group, and passes evaluation groups on with their counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from pipeline.domain import events as e
from pipeline.domain.filters.chain import Chain
from pipeline.domain.filters.custom import Customs
from pipeline.domain.filters.finding import Finding
from pipeline.domain.filters.guard import GuardState
from pipeline.domain.filters.integrity import INTEGRITY, fits, graded, too_large
from pipeline.domain.grouping import mean
from pipeline.domain.rules import Rules
from pipeline.domain.topology import InvariantBroken, MembersCodec, Output, StageName, Topic
from pipeline.domain.vocabulary import Grading, Purpose, Reason, category_of


@dataclass(slots=True)
class Verdicts:
    """How many groups a partition has decided, and what the guards of its domains remember (Guard.home)."""

    partition: int
    accepted: int = 0
    rejected: int = 0
    guards: dict[str, GuardState] = field(default_factory=dict)


class Filter:
    """Step of the filter, one state per partition of `groups`. `customs` gives the callables of custom filters."""

    name = StageName.FILTER
    state_type: type[Any] | None = Verdicts

    def __init__(self, rules: Rules, members: MembersCodec, customs: Customs | None = None) -> None:
        self.members = members
        self.chains = {d.name: Chain(d, customs) for d in rules.domains}

    def initial(self, partition: int) -> Verdicts:
        """Nothing is decided."""
        return Verdicts(partition, guards={c.guard.home: GuardState() for c in self.chains.values() if c.guard})

    def entries(self, state: Verdicts) -> int:
        """Filters remember nothing of single groups; guards do, of a window."""
        return 1 + sum([len(guard.recent) for guard in state.guards.values()])

    def step(self, state: Verdicts, event: e.Event) -> Iterator[Output]:
        """Fold one record of `groups`."""
        match event:
            case e.GroupAssembled(purpose=Purpose.EVAL):
                yield Output(Topic.LEDGER, 0, self._evaluated(event))
            case e.GroupAssembled():
                for answer in self._verdict(state, event):
                    yield Output(Topic.LEDGER, 0, answer)
            case e.Undecodable():
                if event.by_assembler:
                    yield Output(Topic.LEDGER, 0, _undecodable(event))
            case e.RunFinished():
                return
            case _:
                raise InvariantBroken(f"the filter cannot take {type(event).__name__}")

    def ruling(self, state: Verdicts, domain: str, members: Sequence[e.Member], group_size: int) -> Ruling:
        """What decides about a group of a domain; the domain's guard counts it."""
        chain = self.chains[domain]
        finding = chain.decide(members, group_size)
        sound, guard = fits(members), chain.guard
        if finding.reason is None and not sound:
            finding = too_large(members)._replace(measurements=finding.measurements)
        reason = finding.reason if sound else Reason.NON_FINITE_REWARD
        kept = guard is not None and guard.keeps(state.guards[guard.home], reason)
        shadows = chain.shadows(members) if _passes(finding, members) else ()
        return Ruling(finding, kept, shadows)

    def _verdict(self, state: Verdicts, event: e.GroupAssembled) -> Iterator[e.Event]:
        members = self.members.decode(event.members)
        ruling = self.ruling(state, event.prompt.domain, members, event.group_size)
        finding, chain = ruling.finding, self.chains[event.prompt.domain]
        guard = chain.guard.told(state.guards[chain.guard.home]) if chain.guard is not None else {}
        if finding.reason is None or ruling.kept_by_guard:
            state.accepted += 1
            yield _accepted(event, ruling, chain.filter_hash, guard)
            return
        state.rejected += 1
        yield _rejected(event, ruling, finding.reason, chain.filter_hash, guard)
        if finding.ends_run:
            yield e.StageFailed(self.name.value, event.group_id, finding.detail or "", event.at)

    def _evaluated(self, event: e.GroupAssembled) -> e.GroupEvaluated:
        members = self.members.decode(event.members)
        if event.eval is None:
            raise InvariantBroken(f"evaluation group {event.group_id} names no evaluation")
        graded = [m.reward for m in members if m.grading is Grading.GRADED and m.reward is not None]
        average = mean(graded)
        return e.GroupEvaluated(
            event.group_id,
            event.prompt,
            event.eval,
            event.members,
            event.payload_bytes,
            graded=len(graded),
            ungraded=len([m for m in members if m.grading is Grading.UNGRADED]),
            failed=len([m for m in members if m.grading is Grading.FAILED]),
            mean_reward=average if isfinite(average) else None,
            at=event.at,
        )


def _passes(finding: Finding, members: Sequence[e.Member]) -> bool:
    """Whether a group passes the checks before the chain; provenance with one_version is asked before the last ones."""
    if finding.filter == "provenance":
        return graded(members).reason is None
    return finding.reason is None or finding.filter != INTEGRITY


class Ruling(NamedTuple):
    """Everything that decides about a group: what the filters found, and whether the guard overruled them."""

    finding: Finding
    kept_by_guard: bool
    shadows: tuple[e.ShadowVerdict, ...]


def _accepted(event: e.GroupAssembled, ruling: Ruling, filter_hash: str, guard: dict[str, float]) -> e.GroupAccepted:
    finding = ruling.finding
    return e.GroupAccepted(
        event.group_id, event.prompt, event.group_size, event.members, event.payload_bytes, event.largest_payload,
        event.oldest_version, event.newest_version, event.scores, finding.filter, finding.measured, finding.threshold,
        finding.measurements, filter_hash, guard, ruling.kept_by_guard, ruling.shadows, event.at,
    )  # fmt: skip


def _rejected(
    event: e.GroupAssembled, ruling: Ruling, reason: Reason, filter_hash: str, guard: dict[str, float]
) -> e.GroupRejected:
    finding = ruling.finding
    return e.GroupRejected(
        event.group_id, event.prompt, reason, category_of(reason), finding.constant_class, finding.metric,
        finding.metric_name, finding.detail, event.members, event.payload_bytes, event.largest_payload,
        event.oldest_version, event.newest_version, event.scores, finding.filter, finding.measured, finding.threshold,
        finding.measurements, filter_hash, guard, ruling.shadows, event.at,
    )  # fmt: skip


def _undecodable(event: e.Undecodable) -> e.GroupRejected:
    """The assembled group can't be read; the scheduler knows its prompt, and the sweep finds its payloads."""
    return e.GroupRejected(
        event.group_id, e.PromptRef("", "", 0, 0), Reason.UNDECODABLE, category_of(Reason.UNDECODABLE), None, None,
        f"drop_{Reason.UNDECODABLE}", None, b"", 0, 0, -1, -1, None, "undecodable", None, None, {}, "", {}, (),
        event.at,
    )  # fmt: skip
