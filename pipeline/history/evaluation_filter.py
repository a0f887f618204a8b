"""What a run's filters say of evaluations, where `evaluation.filter` asks for it: the filters of each domain of the
groups, the response filter of single responses.

Nothing follows from it: evaluations are never filtered. Whoever reads the log works it out from the groups' members.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import TypeAdapter

from pipeline.config.predicates import Predicate
from pipeline.domain.events import GroupEvaluated, Member
from pipeline.domain.filters.chain import Chain
from pipeline.domain.grouping import mean
from pipeline.domain.rules import rules_of
from pipeline.log.codec import Members
from pipeline.sdk import Judged
from pipeline.verifiers.response_filter import Rejects, rejects

_BY_MEMBER: Final = ("truncated", "min_tokens", "max_tokens")
"""Predicates that look at nothing but what a member carries; all others need the text, the tokens or the run's code."""
_PREDICATE: Final[TypeAdapter[Predicate]] = TypeAdapter(Predicate)


@dataclass(slots=True)
class Filtered:
    """Of one evaluation: groups that the filters keep and reject, and the mean rewards of those kept; responses that
    have a reward, and how many of these the response filter refuses, by predicate."""

    accepted: int = 0
    rejected: int = 0
    means: list[float] = field(default_factory=list)
    responses: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def accuracy(self) -> float | None:
        """The mean over groups that are kept; None without one."""
        return mean(self.means) if self.means else None

    @property
    def passed(self) -> int:
        """Responses that the response filter lets pass."""
        return self.responses - sum(self.refused.values())

    def count_responses(self, members: Iterable[Member], predicates: Sequence[tuple[str, Rejects]]) -> None:
        """Ask about those that were judged; of each, the first predicate that refuses it counts."""
        for member in members:
            if member.reward is None:
                continue
            self.responses += 1
            judged = Judged("", (), member.response_tokens, member.finish_reason, member.reward, {})
            by = next((name for name, refuses in predicates if refuses(judged)), None)
            if by is not None:
                self.refused[by] = self.refused.get(by, 0) + 1


@dataclass(slots=True)
class EvaluationFilter:
    """The chains and predicates of a run whose configuration asks for it, and the counts of evaluations under way.
    `unasked` names the predicates that can't be worked out from members."""

    chains: dict[str, Chain] = field(default_factory=dict)
    predicates: list[tuple[str, Rejects]] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    _counts: dict[int, Filtered] = field(default_factory=dict)
    _members: Members = field(default_factory=Members)

    def begin(self, config: str) -> None:
        """Read RunStarted's configuration."""
        tree = json.loads(config)
        if not tree["evaluation"].get("filter"):
            return
        self.chains = {rules.name: Chain(rules) for rules in rules_of(config).domains}
        configured: Sequence[Mapping[str, Any]] = tree.get("response_filter", ())
        self.unasked = [p["type"] for p in configured if p["type"] not in _BY_MEMBER]
        known = [_PREDICATE.validate_python(p) for p in configured if p["type"] in _BY_MEMBER]
        self.predicates = [(p.type, rejects(p, 0, place)) for place, p in enumerate(known)]

    def note(self, event: GroupEvaluated) -> None:
        """Ask the filters of the prompt's domain, if it is one of training, and the response filter."""
        if not self.chains:
            return
        counts = self._counts.setdefault(event.eval.id, Filtered())
        members = self._members.decode(event.members)
        counts.count_responses(members, self.predicates)
        chain = self.chains.get(event.prompt.domain)
        if chain is None:
            return
        if chain.decide(members, len(members)).reason is not None:
            counts.rejected += 1
            return
        counts.accepted += 1
        if event.mean_reward is not None:
            counts.means.append(event.mean_reward)

    def take(self, evaluation: int) -> Filtered | None:
        """The counts of one that is finished; None where filters aren't asked."""
        return self._counts.pop(evaluation, Filtered()) if self.chains else None
