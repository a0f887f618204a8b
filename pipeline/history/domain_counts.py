"""How the groups of one domain fare. A part of the run's view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pipeline.domain import events as e
from pipeline.domain.rules import DomainRules
from pipeline.domain.vocabulary import Category
from pipeline.history.names import Rejection, drop_names, rejections
from pipeline.history.series import Spread

MOST_DROP_NAMES: Final = 50
OTHER_DROPS: Final = "drop_zero_std_other"


@dataclass(slots=True)
class DomainCounts:
    """Training groups of one domain. `rejected` by category, reason and filter; `drops` by the field's names, of which
    there are MOST_DROP_NAMES at most: constant groups of further values are OTHER_DROPS. `guard`:
    what the guard remembered at the last verdict. `graded`: members of groups with a verdict, by what is known of their
    worth."""

    opened: int = 0
    open: int = 0
    accepted: int = 0
    kept_by_guard: int = 0
    deselected: int = 0
    replacements: int = 0
    rejected: dict[Rejection, int] = field(default_factory=dict)
    drops: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    waived: dict[str, int] = field(default_factory=dict)
    guard: dict[str, float] = field(default_factory=dict)
    graded: dict[str, int] = field(default_factory=dict)
    assembly: Spread = field(default_factory=Spread)

    @classmethod
    def of(cls, rules: DomainRules) -> DomainCounts:
        """Nothing has happened; every rejection that the domain's filters know is there."""
        return cls(rejected=dict.fromkeys(rejections(rules), 0), drops=dict.fromkeys(drop_names(rules), 0))

    @property
    def judged(self) -> int:
        """Accepted and rejected."""
        return self.accepted + sum(self.rejected.values())

    def by_category(self, category: Category) -> Iterator[tuple[str, str, int]]:
        """Reason, filter and number of the rejections of a category, the most frequent first, without zeros."""
        found = [(reason, by, many) for (kind, reason, by), many in self.rejected.items() if kind == category and many]
        yield from sorted(found, key=lambda row: (-row[2], row))

    def rejections_in(self, category: Category) -> int:
        """All rejections of a category."""
        return sum(many for _, _, many in self.by_category(category))

    def on_rejected(self, event: e.GroupRejected) -> None:
        """Count a rejection by all its names."""
        key = (str(event.category), str(event.reason), event.filter)
        self.rejected[key] = self.rejected.get(key, 0) + 1
        name = event.metric_name
        if name not in self.drops and len(self.drops) >= MOST_DROP_NAMES:
            name = OTHER_DROPS
        self.drops[name] = self.drops.get(name, 0) + 1
        self.guard = event.guard_state or self.guard

    def on_members(self, members: Iterable[e.Member]) -> None:
        """Count the members of a group by their grading."""
        for member in members:
            self.graded[member.grading] = self.graded.get(member.grading, 0) + 1

    def on_accepted(self, event: e.GroupAccepted) -> None:
        """Count an acceptance."""
        self.accepted += 1
        self.kept_by_guard += event.kept_by_guard
        self.guard = event.guard_state or self.guard
