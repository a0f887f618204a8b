"""What the filters of each domain say of evaluation groups, where `evaluation.filter` asks for it.

Nothing follows from it: evaluation groups are never rejected. Whoever reads the log works it out from their members.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pipeline.domain.events import GroupEvaluated
from pipeline.domain.filters.chain import Chain
from pipeline.domain.grouping import mean
from pipeline.domain.rules import rules_of
from pipeline.log.codec import Members


@dataclass(slots=True)
class Filtered:
    """Of one evaluation: groups that the filters keep and reject, and the mean rewards of those kept."""

    accepted: int = 0
    rejected: int = 0
    means: list[float] = field(default_factory=list)

    @property
    def accuracy(self) -> float | None:
        """The mean over groups that are kept; None without one."""
        return mean(self.means) if self.means else None


@dataclass(slots=True)
class EvaluationFilter:
    """The chains of a run whose configuration asks for it, and the counts of evaluations under way."""

    chains: dict[str, Chain] = field(default_factory=dict)
    _counts: dict[int, Filtered] = field(default_factory=dict)
    _members: Members = field(default_factory=Members)

    def begin(self, config: str) -> None:
        """Read RunStarted's configuration."""
        if json.loads(config)["evaluation"].get("filter"):
            self.chains = {rules.name: Chain(rules) for rules in rules_of(config).domains}

    def note(self, event: GroupEvaluated) -> None:
        """Ask the filters of the prompt's domain, if it is one of training."""
        chain = self.chains.get(event.prompt.domain)
        if chain is None:
            return
        counts = self._counts.setdefault(event.eval.id, Filtered())
        members = self._members.decode(event.members)
        if chain.decide(members, len(members)).reason is not None:
            counts.rejected += 1
            return
        counts.accepted += 1
        if event.mean_reward is not None:
            counts.means.append(event.mean_reward)

    def take(self, evaluation: int) -> Filtered | None:
        """The counts of one that is finished; None where filters aren't asked."""
        return self._counts.pop(evaluation, Filtered()) if self.chains else None
