"""Starvation: a domain accepts too little for the trainer to go on. Counted while the trainer could wait for it."""

from __future__ import annotations

from pipeline.domain import events as e
from pipeline.domain.rules import StarvationRules
from pipeline.domain.run_state import Share
from pipeline.domain.vocabulary import Category, StarvationCause, StarvationPolicy


def note_verdict(share: Share, accepted: bool, rules: StarvationRules) -> None:
    """A filter accepted or rejected a group while the trainer had nothing."""
    share.rejected_in_a_row = 0 if accepted else share.rejected_in_a_row + 1
    if rules.window:
        share.recent.append(accepted)
        del share.recent[: -rules.window]


def note_ending(share: Share, category: Category | None) -> None:
    """Count how groups ended since the domain's last batch; None: accepted."""
    match category:
        case None:
            share.accepted += 1
            share.idle_ms = 0
        case Category.INVALID:
            share.invalid += 1
        case Category.LOW_INFORMATION:
            share.low_information += 1
        case Category.SYSTEM:
            share.system += 1


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
        _advice(share, cause), at,
    )  # fmt: skip


def _advice(share: Share, cause: StarvationCause) -> str:
    if cause is StarvationCause.SOURCE_EXHAUSTED:
        return "the source was passed once in this step without filling a batch: add prompts or relax the filter"
    worst = max(share.invalid, share.low_information, share.system)
    if worst == 0:
        return "no group ended at all: look at generators and scorers (tamis status)"
    if worst == share.system:
        return "groups end by deadline or unreadable records: look at generators and scorers, or raise assembly.lease"
    if worst == share.invalid:
        return "groups are invalid: look at the verifiers' health and the environment before the filter"
    return "groups teach nothing: easier or harder prompts, more samples a group, or a lower tolerance"
