"""How long responses are: members of training groups, discarded ones, and all. First come, first served favours short
answers; the difference between members and all is that bias."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pipeline.domain import events as e
from pipeline.domain.vocabulary import DiscardReason
from pipeline.history.series import Spread


@dataclass(frozen=True, slots=True)
class LengthTotals:
    """Responses and their tokens up to now."""

    members: int = 0
    member_tokens: int = 0
    discarded: int = 0
    discarded_tokens: int = 0

    @property
    def of_members(self) -> float | None:
        """Mean tokens of a member."""
        return _mean(self.member_tokens, self.members)

    @property
    def of_discarded(self) -> float | None:
        """Mean tokens of a discarded response."""
        return _mean(self.discarded_tokens, self.discarded)

    @property
    def of_all(self) -> float | None:
        """Mean tokens of a response."""
        return _mean(self.member_tokens + self.discarded_tokens, self.members + self.discarded)

    def since(self, before: LengthTotals) -> LengthTotals:
        """What came after an earlier moment."""
        return LengthTotals(
            self.members - before.members,
            self.member_tokens - before.member_tokens,
            self.discarded - before.discarded,
            self.discarded_tokens - before.discarded_tokens,
        )


NO_LENGTHS: Final = LengthTotals()


@dataclass(slots=True)
class Lengths:
    """Tokens of responses that were sampled to their end, judged or not: those that failed are left out, and copies."""

    members: Spread = field(default_factory=Spread)
    discarded: Spread = field(default_factory=Spread)
    totals: LengthTotals = NO_LENGTHS

    def on_members(self, members: Iterable[e.Member]) -> None:
        """Take the members of a training group."""
        tokens = [m.response_tokens for m in members if m.failure is None]
        for each in tokens:
            self.members.add(each)
        t = self.totals
        self.totals = LengthTotals(
            t.members + len(tokens), t.member_tokens + sum(tokens), t.discarded, t.discarded_tokens
        )

    def on_discarded(self, event: e.ResponseDiscarded) -> None:
        """Take a response that won't be a member."""
        if event.failure is not None or event.reason is DiscardReason.DUPLICATE:
            return
        self.discarded.add(event.response_tokens)
        t = self.totals
        self.totals = LengthTotals(
            t.members, t.member_tokens, t.discarded + 1, t.discarded_tokens + event.response_tokens
        )


def _mean(tokens: int, responses: int) -> float | None:
    return tokens / responses if responses else None
