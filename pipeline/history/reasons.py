"""Why something ended as it did, as a sentence that names its numbers: one for every reason there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipeline.domain import events as e
from pipeline.domain.advice import names_no_number
from pipeline.domain.filters.finding import metric_values
from pipeline.domain.filters.variance import finished
from pipeline.domain.rules import Rules
from pipeline.domain.vocabulary import (
    ConstantClass,
    DiscardReason,
    ExpiryReason,
    Grading,
    Reason,
    SkipReason,
    WaiverReason,
)

MOST_DETAIL: Final = 300
"""Characters of a response's detail that are told."""
_REJECTED = {
    Reason.TIMEOUT: "a member has no reward: it ran out of time",
    Reason.ENV_FAILED: "a member has no reward: its environment failed",
    Reason.FORMAT: "an answer isn't in the format that was asked for",
    Reason.EMPTY: "a member has no reward: its response is empty",
    Reason.UNGRADED: "a member has no {metric}: nobody could judge it",
    Reason.NON_FINITE_REWARD: "a {metric}, or a number made of all, is not finite",
    Reason.RESPONSE_RETRIES_EXHAUSTED: "a slot failed in its last round, with {kept} of {size} responses at hand",
    Reason.PROVENANCE: "its members are not one group of the policy that was asked for",
    Reason.ABORTED: "a member was aborted",
    Reason.FILTER_ERROR: "the filter itself failed",
    Reason.ZERO_STD: "the standard deviation of {metric} is {measured}, not above {threshold}",
    Reason.INSUFFICIENT_FINISHED_RESPONSES: "{measured} responses ended within their limit, of {threshold} needed",
    Reason.STD: "the standard deviation of {metric} is {measured}, not above {threshold}",
    Reason.MEAN_LOW: "the mean of {metric} is {measured}, not above {threshold}",
    Reason.MEAN_HIGH: "the mean of {metric} is {measured}, not below {threshold}",
    Reason.BAND: "the mean of {metric} is {measured}, beyond {threshold}",
    Reason.DROP_FLAG: "{measured} members are flagged, of {threshold} allowed",
    Reason.CUSTOM: "a filter of one's own said so",
    Reason.DEADLINE: "its time was over with {kept} of {size} responses at hand",
    Reason.UNDECODABLE: "a record about it can't be read (tamis tail RUN dead-letters)",
}
_MISNAMED = "a member has no {metric}, although it was judged"
_EXPIRED = {
    ExpiryReason.STALE: "too old for the next batch",
    ExpiryReason.PAYLOAD_MISSING: "a payload is gone from Redis, or damaged",
    ExpiryReason.RUN_OVER: "the run ended before it could be used",
}
_WAIVED = {
    WaiverReason.SURPLUS: "no more groups of {domain} are wanted now, with a lead of {lead}",
    WaiverReason.ATTEMPTS_EXHAUSTED: "this was attempt {attempt} of {max_attempts}",
    WaiverReason.SOURCE_EXHAUSTED: "the source has no other prompt of {domain}",
    WaiverReason.RUN_COMPLETE: "the run needs no more groups for its {steps} steps, or is closing",
}
_DISCARDED = {
    DiscardReason.LATE: "its group was complete, or had ended",
    DiscardReason.DUPLICATE: "another response of this slot and round was there before",
    DiscardReason.FILTERED: "the response filter refused it",
    DiscardReason.FAILED: "it came to nothing",
    DiscardReason.UNKNOWN_GROUP: "no such group was ever opened",
}
_SKIPPED = {
    SkipReason.EMPTY_AFTER_FILTER: "the selection kept none of its candidates",
    SkipReason.NOTHING_ACCEPTED: "no group was at hand when the run starved",
}


def rejected(event: e.GroupRejected, members: Sequence[e.Member], size: int | None) -> str:
    """Refused why, by whom, on which numbers; what the guard and the shadows say. `size`: of the group, if known."""
    known = {
        "metric": event.metric or "reward",
        "measured": number(event.measured),
        "threshold": number(event.threshold),
        "kept": len(members),
        "size": size if size is not None else "its",
    }
    why = _MISNAMED if names_no_number(event) else _REJECTED[event.reason]
    text = f"rejected: {event.reason} ({event.category}) by {event.filter}: {why.format(**known)}"
    if "{measured}" not in why:
        text += measured(event.measured, event.threshold)
    said = [*_common(event, members), *([event.detail] if event.detail else [])]
    return "; ".join([text, *said, *aside(event.guard_state, event.shadows)])


def _common(event: e.GroupRejected, members: Sequence[e.Member]) -> Iterator[str]:
    """What the members of a constant group had, those that its filter looked at: if it is one number."""
    cut = event.filter == "finished_zero_std"
    values = metric_values(finished(members) if cut else members, event.metric or "reward")
    if event.constant_class is not None and values and min(values) == max(values):
        best = ", the highest there is" if event.constant_class is ConstantClass.ALL_MAX else ""
        yield f"all {len(values)} {'finished ' * cut}members had {values[0]:g}{best}"


def accepted(event: e.GroupAccepted) -> str:
    """Kept by which filter, or by the guard against it."""
    text = f"accepted by {event.filter}{measured(event.measured, event.threshold)}"
    if event.kept_by_guard:
        text = f"kept by the guard, rejected by {event.filter}{measured(event.measured, event.threshold)}"
    return "; ".join([text, *aside(event.guard_state, event.shadows)])


def aside(guard: Mapping[str, float], shadows: Sequence[e.ShadowVerdict]) -> list[str]:
    """What the guard remembers, and what the shadows would have said."""
    told = []
    if guard:
        recent = f", {guard['recent_filtered']:g} of the newest {guard['recent']:g}" if "recent" in guard else ""
        state = f"{guard['filtered']:g} of {guard['total']:g} rejected, {guard['in_a_row']:g} in a row{recent}"
        told.append(f"the guard counts {state}")
    for shadow in shadows:
        verdict = "keeps it" if shadow.accepted else f"rejects it: {shadow.reason}"
        told.append(f"shadow {shadow.name} {verdict}{measured(shadow.measured, None)}")
    return told


def expired(event: e.GroupExpired, rules: Rules | None) -> str:
    """Unused, and why."""
    text = f"expired: {event.reason}, {_EXPIRED[event.reason]}"
    if event.staleness is not None:
        most = f" of {rules.max_staleness} allowed" if rules else ""
        text += f": {event.staleness} versions{most}"
    return f"{text}; {event.payload_bytes} bytes of payloads"


def waived(event: e.ReplacementWaived, opened: e.GroupOpened | None, rules: Rules | None) -> str:
    """Why nothing is sampled in its place."""
    known = {
        "domain": event.domain,
        "attempt": opened.attempt if opened else "?",
        "max_attempts": rules.max_attempts if rules else "?",
        "steps": rules.steps if rules else "?",
        "lead": rules.lead(rules.domain(event.domain)) if rules and event.domain else "?",
    }
    return f"gets no replacement: {event.reason}, {_WAIVED[event.reason].format(**known)}"


def discarded(event: e.ResponseDiscarded, slot: str, scored: e.ResponseScored | None = None) -> str:
    """Why a response is no member; `slot` names it, `scored` is what was said when it was judged, if known."""
    why = str(event.failure) if event.failure else ""
    if scored is not None and scored.discard is event.reason:
        why = unused(scored)
        if scored.grading is Grading.UNGRADED and event.reason is DiscardReason.FAILED:
            why = f"ungraded: {why}" if why else "ungraded"
    told = f" ({why})" if why else ""
    return f"{slot} discarded: {event.reason}, {_DISCARDED[event.reason]}{told}; {event.response_tokens} tokens"


def unused(event: e.ResponseScored) -> str:
    """What a scored response failed of, and its detail: the predicate that refused it, or why nobody judged it."""
    detail = (event.detail or "")[:MOST_DETAIL] + "…" * (len(event.detail or "") > MOST_DETAIL)
    return ": ".join([*([str(event.failure)] if event.failure else []), *([detail] if detail else [])])


def skipped(event: e.BatchSkipped) -> str:
    """Why a step has no batch."""
    return f"batch {event.batch} skipped: {event.reason}, {_SKIPPED[event.reason]}"


def number(value: float | None) -> str:
    """A measured value for people, or a dash."""
    return "–" if value is None else f"{value:.4g}"


def measured(value: float | None, threshold: float | None) -> str:
    """`, measured 0.5 against 0.1`, as far as known."""
    if value is None:
        return ""
    return f", measured {number(value)}" + (f" against {number(threshold)}" if threshold is not None else "")
