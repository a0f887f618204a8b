"""What nobody judged is no lack of signal: under a verifier's policy `zero` an unknown reward counts as 0, and a group
of such zeros would look like one that teaches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter
from pipeline.domain.vocabulary import Category, Grading, Reason, category_of

LEAST_KNOWN = 2
"""Judged members without which a group can't be said to lack anything."""


def unless_unknown(ask: GroupFilter, members: Sequence[Member]) -> Finding:
    """What a filter says. A rejection for want of signal is `ungraded` unless the members that were judged, two or
    more, would be rejected for that by themselves. (A custom filter isn't asked about a part of a group.)"""
    finding = ask(members)
    if not _lacks_signal(finding):
        return finding
    known = [m for m in members if m.grading is not Grading.UNGRADED]
    if len(known) == len(members):
        return finding
    if len(known) >= LEAST_KNOWN and (finding.reason is Reason.CUSTOM or _lacks_signal(ask(known))):
        return finding
    reason, unknown = Reason.UNGRADED, len(members) - len(known)
    detail = f"{unknown} of {len(members)} rewards are unknown, counted as 0; it would be {finding.metric_name}"
    return finding._replace(reason=reason, constant_class=None, metric_name=f"drop_{reason}", detail=detail)


def _lacks_signal(finding: Finding) -> bool:
    return finding.reason is not None and category_of(finding.reason) is Category.LOW_INFORMATION
