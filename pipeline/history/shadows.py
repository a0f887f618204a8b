"""What shadow filters said, beside what was decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipeline.domain import events as e
from pipeline.log.codec import Poison
from pipeline.log.reader import Record


@dataclass(slots=True)
class Shadow:
    """One shadow filter of a domain: groups that it was asked about. `rejects` by reason; `only_here` it would have
    rejected though they were accepted, `only_there` it would have kept though they were rejected."""

    asked: int = 0
    accepts: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    only_here: int = 0
    only_there: int = 0

    @property
    def table(self) -> dict[tuple[str, str], int]:
        """Groups by what the shadow said and what was decided."""
        rejects = self.asked - self.accepts
        return {
            ("accept", "accepted"): self.accepts - self.only_there,
            ("accept", "rejected"): self.only_there,
            ("reject", "accepted"): self.only_here,
            ("reject", "rejected"): rejects - self.only_here,
        }


@dataclass(slots=True)
class ShadowTally:
    """Shadow filters by domain and name."""

    found: dict[tuple[str, str], Shadow] = field(default_factory=dict)

    def note(self, domain: str, shadows: Iterable[e.ShadowVerdict], accepted: bool) -> None:
        """Count what the shadows of a domain said of a group that was accepted, or not."""
        for verdict in shadows:
            shadow = self.found.setdefault((domain, verdict.name), Shadow())
            shadow.asked += 1
            shadow.accepts += verdict.accepted
            if not verdict.accepted:
                reason = str(verdict.reason)
                shadow.rejects[reason] = shadow.rejects.get(reason, 0) + 1
            shadow.only_here += accepted and not verdict.accepted
            shadow.only_there += verdict.accepted and not accepted


def recorded_shadows(records: Iterable[Record]) -> tuple[ShadowTally, int]:
    """What a run's own shadow filters said, from its ledger; and how many verdicts there are."""
    tally, verdicts = ShadowTally(), 0
    for record in records:
        try:
            event = record.event()
        except Poison:
            continue
        if isinstance(event, e.GroupAccepted | e.GroupRejected):
            verdicts += 1
            tally.note(event.prompt.domain, event.shadows, isinstance(event, e.GroupAccepted))
    return tally, verdicts


def shadow_rows(tally: ShadowTally) -> list[dict[str, Any]]:
    """Each shadow filter as JSON."""
    return [
        {
            "domain": domain,
            "shadow": name,
            "asked": s.asked,
            "accepts": s.accepts,
            "rejects": s.rejects,
            "rejects_accepted": s.only_here,
            "accepts_rejected": s.only_there,
        }
        for (domain, name), s in tally.found.items()
    ]
