"""Starvation: a domain accepts too little for the trainer to go on. Counted while the trainer could wait for it."""

from __future__ import annotations

from pipeline.domain import events as e
from pipeline.domain.advice import MISNAMED, UNJUDGED, advice, kind_of
from pipeline.domain.rules import StarvationRules
from pipeline.domain.run_state import Share
from pipeline.domain.vocabulary import Category, StarvationCause, StarvationPolicy


def note_verdict(share: Share, accepted: bool, rules: StarvationRules) -> None:
    """A filter accepted or rejected a group while the trainer had nothing."""
    share.rejected_in_a_row = 0 if accepted else share.rejected_in_a_row + 1
    if rules.window:
        share.recent.append(accepted)
        del share.recent[: -rules.window]


def note_accepted(share: Share) -> None:
    """Count a group that was accepted since the domain's last batch."""
    share.accepted += 1
    share.idle_ms = 0


def note_rejected(share: Share, event: e.GroupRejected) -> None:
    """Count a group that was rejected since the domain's last batch, by category and by what to blame it on."""
    share.invalid += event.category is Category.INVALID
    share.low_information += event.category is Category.LOW_INFORMATION
    share.system += event.category is Category.SYSTEM
    kind = kind_of(event)
    share.kinds[kind] = share.kinds.get(kind, 0) + 1
    if kind == UNJUDGED or (kind == MISNAMED and UNJUDGED not in share.kinds):
        share.last_outage = event.detail or ""


def cause_of(share: Share, rules: StarvationRules) -> StarvationCause | None:
    """Why the domain starves, if it does."""
    if rules.rejections_in_a_row and share.rejected_in_a_row >= rules.rejections_in_a_row:
        return StarvationCause.REJECTIONS_IN_A_ROW
    if rules.window and len(share.recent) >= rules.window:
        accepted = len([a for a in share.recent if a])
        if accepted < rules.min_acceptance * rules.window:
            return StarvationCause.LOW_ACCEPTANCE
    if rules.no_progress_ms and share.idle_ms >= rules.no_progress_ms:
        return StarvationCause.NO_PROGRESS
    return None


def raised(domain: str, share: Share, cause: StarvationCause, policy: StarvationPolicy, at: int) -> e.StarvationRaised:
    """The event, split by category, with what to try."""
    return e.StarvationRaised(
        domain, cause, policy, share.accepted, share.invalid, share.low_information, share.system,
        advice(share, cause), at,
    )  # fmt: skip
