"""What to try when a domain starves: the measured counts, split by cause, and the settings that matter for each.

What nobody judged is told as an outage, never as a lack of signal. Settings are named as in the configuration.
"""

from __future__ import annotations

from typing import Final

from pipeline.domain import events as e
from pipeline.domain.run_state import Share
from pipeline.domain.topology import StageName
from pipeline.domain.vocabulary import ConstantClass, Failure, Reason, StarvationCause

UNGRADED: Final = "ungraded"
FILTERED: Final = "filtered"
SILENT: Final = "silent"
"""What the responses of a group may come to, beside a failure: nobody judged it, the response filter refused it, or it
never came."""

UNJUDGED: Final = "unjudged"
MISNAMED: Final = "misnamed"

_MOST_TOLD = 4

_TRY: Final = {
    UNJUDGED: "had responses that no verifier judged: an outage, no lack of signal. The scorers' log and metrics tell "
    "each verifier's health, and verifiers.<name>.timeout_s gives it more time",
    MISNAMED: "had responses that were judged and lack the number that is filtered on: name another in metric or in "
    "the filter, or mend the verifier that should give it",
    "silent": "had responses that never came: generators or scorers are away, or a verifier doesn't answer (tamis "
    "status). More time is given by assembly.lease and assembly.deadline",
    "failed": "had responses that failed: the generators' log tells why; assembly.max_rounds has them tried more often",
    "oversized": "had responses that don't fit: raise payload.max, or have the engine stop earlier",
    "lost": "had payloads that were gone before they were judged: raise payload.ttl, see whether Redis was emptied",
    "filtered": "had too many responses refused by response_filter: relax it, or raise assembly.max_rounds",
    "unreadable": "had records that can't be read: the topic dead-letters has them",
    "too_hard": "were too hard: easier prompts, a larger group_size, or a lower bound in filters",
    "too_easy": "were too easy: harder prompts, a higher bound in filters, or exclude_above_pass_rate, which leaves "
    "solved prompts out of later passes",
    "alike": "had rewards that hardly differ: a larger group_size, or a smaller tol or std_threshold in filters",
    "cut_off": "had fewer than two answers that ended by themselves: a higher token limit in the engine's options",
    "unwanted": "were refused by a custom filter: relax it in filters",
    "not_finite": "had rewards that are not finite numbers: mend the verifier that gives them",
    "flagged": "had trajectories that their environment broke: mend it, or give the domain a guard",
    "mixed": "had policy versions that are unknown or differ: mend the engine's, or drop one_version in filters",
    "filter_broke": "met a custom filter that raised: mend it, or set its on_error in filters",
    "other": "ended otherwise: tamis trace tells the reason of each",
}

_OF: Final = {
    UNGRADED: UNJUDGED, SILENT: "silent", FILTERED: "filtered",
    Failure.TOO_LONG: "oversized", Failure.PAYLOAD_EXPIRED: "lost", Failure.TIMEOUT: "failed",
    Failure.ENV_FAILED: "failed", Failure.ABORTED: "failed", Failure.EMPTY: "failed",
    Reason.DEADLINE: "silent", Reason.UNDECODABLE: "unreadable", Reason.NON_FINITE_REWARD: "not_finite",
    Reason.PROVENANCE: "mixed", Reason.FILTER_ERROR: "filter_broke", Reason.DROP_FLAG: "flagged",
    ConstantClass.ALL_ZERO: "too_hard", Reason.MEAN_LOW: "too_hard", ConstantClass.ALL_MAX: "too_easy",
    Reason.MEAN_HIGH: "too_easy", ConstantClass.CONSTANT: "alike", Reason.STD: "alike",
    Reason.INSUFFICIENT_FINISHED_RESPONSES: "cut_off", Reason.CUSTOM: "unwanted",
}  # fmt: skip


_OF_SELECTION: Final = (StarvationCause.EMPTY_SELECTIONS, StarvationCause.REWARD_VARIANCE_COLLAPSE)


def kind_of(event: e.GroupRejected) -> str:
    """What a rejection is to be blamed on, a key of the advice. A group that ended before it was whole is blamed on
    what most of its responses came to."""
    if event.reason is Reason.BAND and event.measured is not None and event.threshold is not None:
        return "too_hard" if event.measured < event.threshold else "too_easy"
    if names_no_number(event):
        return MISNAMED
    word: str = event.constant_class or event.reason
    if event.filter == StageName.ASSEMBLER and event.measurements:
        word = max(event.measurements, key=lambda name: event.measurements[name])
    return _OF.get(word, "other")


def names_no_number(event: e.GroupRejected) -> bool:
    """Whether a filter's metric is none that the verifiers give: a judged member lacks it (its detail says which)."""
    measures = event.metric is not None and event.measured is None
    return event.reason is Reason.UNGRADED and measures and event.detail is not None


def advice(share: Share, cause: StarvationCause) -> str:
    """Why the domain is said to starve, then for each kind of ending how many groups and what to try."""
    endings = [] if cause in _OF_SELECTION and not share.kinds else _endings(share)
    return "; ".join([_trigger(share, cause), *endings])


def _endings(share: Share) -> list[str]:
    kinds, total = share.kinds, share.invalid + share.low_information + share.system
    if not total:
        return ["no group was rejected, so this is no lack of signal: look at generators and scorers (tamis status)"]
    order = sorted(kinds, key=lambda kind: (-kinds[kind], list(_TRY).index(kind)))[:_MOST_TOLD]
    parts = [f"{kinds[kind]} of {total} rejected groups {_TRY[kind]}" for kind in order]
    if share.last_outage:
        which = "nobody judged" if UNJUDGED in kinds else "lacks its number"
        parts.append(f"the last that {which}: {share.last_outage}")
    return parts


def _trigger(share: Share, cause: StarvationCause) -> str:
    match cause:
        case StarvationCause.REJECTIONS_IN_A_ROW:
            return f"{share.rejected_in_a_row} groups were rejected in a row (starvation.rejections_in_a_row)"
        case StarvationCause.LOW_ACCEPTANCE:
            kept = len([accepted for accepted in share.recent if accepted])
            return f"{kept} of the last {len(share.recent)} groups were accepted, under starvation.min_acceptance"
        case StarvationCause.NO_PROGRESS:
            return f"no group was accepted in {share.idle_ms / 1000:g} s of run time (starvation.no_progress)"
        case StarvationCause.SOURCE_EXHAUSTED:
            solved = f"; {len(share.solved)} solved ones are left out (exclude_above_pass_rate)" if share.solved else ""
            return f"all prompts of a pass were drawn in this step and the batch is not full: add prompts{solved}"
        case StarvationCause.EMPTY_SELECTIONS:
            return "window after window kept no group: a lower selection.value or selection.eps, or another metric"
        case StarvationCause.REWARD_VARIANCE_COLLAPSE:
            return (
                "rewards within a group hardly vary any more: harder prompts, more exploration, or an earlier "
                "checkpoint; selection.variance_stop: false goes on"
            )
