"""The filter stage: accepts or rejects each assembled group, and passes evaluation groups on with their counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.filters.chain import Chain
from pipeline.domain.filters.finding import Finding
from pipeline.domain.grouping import mean
from pipeline.domain.rules import Rules
from pipeline.domain.topology import InvariantBroken, MembersCodec, Output, StageName, Topic
from pipeline.domain.vocabulary import Grading, Purpose, Reason, category_of


@dataclass(slots=True)
class Verdicts:
    """How many groups a partition has decided."""

    partition: int
    accepted: int = 0
    rejected: int = 0


class Filter:
    """Step of the filter, one state per partition of `groups`."""

    name = StageName.FILTER
    state_type: type[Any] | None = Verdicts

    def __init__(self, rules: Rules, members: MembersCodec) -> None:
        self.members = members
        self.chains = {d.name: Chain(d) for d in rules.domains}

    def initial(self, partition: int) -> Verdicts:
        """Nothing is decided."""
        return Verdicts(partition)

    def entries(self, state: Verdicts) -> int:
        """The default chain remembers nothing of single groups."""
        return 1

    def step(self, state: Verdicts, event: e.Event) -> Iterator[Output]:
        """Fold one record of `groups`."""
        match event:
            case e.GroupAssembled(purpose=Purpose.EVAL):
                yield Output(Topic.LEDGER, 0, self._evaluated(event))
            case e.GroupAssembled():
                yield Output(Topic.LEDGER, 0, self._verdict(state, event))
            case e.Undecodable():
                if event.by_assembler:
                    yield Output(Topic.LEDGER, 0, _undecodable(event))
            case e.RunFinished():
                return
            case _:
                raise InvariantBroken(f"the filter cannot take {type(event).__name__}")

    def _verdict(self, state: Verdicts, event: e.GroupAssembled) -> e.GroupAccepted | e.GroupRejected:
        chain = self.chains[event.prompt.domain]
        finding = chain.decide(self.members.decode(event.members), event.group_size)
        if finding.reason is None:
            state.accepted += 1
            return _accepted(event, finding, chain.filter_hash)
        state.rejected += 1
        return _rejected(event, finding, finding.reason, chain.filter_hash)

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


def _accepted(event: e.GroupAssembled, finding: Finding, filter_hash: str) -> e.GroupAccepted:
    return e.GroupAccepted(
        event.group_id, event.prompt, event.group_size, event.members, event.payload_bytes, event.largest_payload,
        event.oldest_version, event.newest_version, event.scores, finding.filter, finding.measured, finding.threshold,
        finding.measurements, filter_hash, {}, False, (), event.at,
    )  # fmt: skip


def _rejected(event: e.GroupAssembled, finding: Finding, reason: Reason, filter_hash: str) -> e.GroupRejected:
    return e.GroupRejected(
        event.group_id, event.prompt, reason, category_of(reason), finding.constant_class, finding.metric,
        finding.metric_name, finding.detail, event.members, event.payload_bytes, event.largest_payload,
        event.oldest_version, event.newest_version, event.scores, finding.filter, finding.measured, finding.threshold,
        finding.measurements, filter_hash, {}, (), event.at,
    )  # fmt: skip


def _undecodable(event: e.Undecodable) -> e.GroupRejected:
    """The assembled group can't be read; the scheduler knows its prompt, and the sweep finds its payloads."""
    return e.GroupRejected(
        event.group_id, e.PromptRef("", "", 0, 0), Reason.UNDECODABLE, category_of(Reason.UNDECODABLE), None, None,
        f"drop_{Reason.UNDECODABLE}", None, b"", 0, 0, -1, -1, None, "undecodable", None, None, {}, "", {}, (),
        event.at,
    )  # fmt: skip
