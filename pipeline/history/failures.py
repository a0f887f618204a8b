"""Training responses that came to nothing, members of their groups or not, by what they failed of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.domain import events as e
from pipeline.domain.advice import UNGRADED
from pipeline.domain.vocabulary import DiscardReason, Failure, Grading


@dataclass(slots=True)
class Failures:
    """`counts` by failure; `ungraded` where a response is whole and nobody judged it. Copies don't count."""

    counts: dict[str, int] = field(default_factory=dict)

    def on_members(self, members: Iterable[e.Member]) -> None:
        """Take the members of a group."""
        for member in members:
            self._count(member.failure, member.grading is Grading.UNGRADED)

    def on_discarded(self, event: e.ResponseDiscarded) -> None:
        """Take a response that won't be a member."""
        if event.reason is not DiscardReason.DUPLICATE:
            self._count(event.failure, event.reason is DiscardReason.FAILED)

    def _count(self, failure: Failure | None, ungraded: bool) -> None:
        if failure is not None or ungraded:
            name = str(failure or UNGRADED)
            self.counts[name] = self.counts.get(name, 0) + 1
