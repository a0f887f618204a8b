"""The names that a domain's filters can give as reasons, known before anything is rejected: counters start at 0."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain.filters.integrity import INTEGRITY
from pipeline.domain.rules import DomainRules, FilterRule
from pipeline.domain.topology import StageName
from pipeline.domain.vocabulary import Reason, category_of

_BROKEN = (
    Reason.PROVENANCE, Reason.ABORTED, Reason.TIMEOUT, Reason.ENV_FAILED, Reason.EMPTY, Reason.UNGRADED,
    Reason.NON_FINITE_REWARD,
)  # fmt: skip
_BY_ASSEMBLER = (Reason.RESPONSE_RETRIES_EXHAUSTED, Reason.DEADLINE)
_BY_FILTER: dict[str, tuple[Reason, ...]] = {
    "provenance": (Reason.PROVENANCE,),
    "no_filter": (),
    "drop_flag": (Reason.DROP_FLAG,),
    "finished_zero_std": (Reason.ZERO_STD, Reason.INSUFFICIENT_FINISHED_RESPONSES),
    "zero_std": (Reason.ZERO_STD,),
    "std_filter": (Reason.STD,),
    "mean_filter": (Reason.MEAN_LOW, Reason.MEAN_HIGH),
    "band": (Reason.BAND,),
    "custom": (Reason.CUSTOM, Reason.FILTER_ERROR),
}

Rejection = tuple[str, str, str]
"""Category, reason, filter."""


def rejections(domain: DomainRules) -> Iterator[Rejection]:
    """Every way in which a group of the domain is expected to be rejected."""
    for reason in _BROKEN:
        yield str(category_of(reason)), str(reason), INTEGRITY
    for reason in _BY_ASSEMBLER:
        yield str(category_of(reason)), str(reason), StageName.ASSEMBLER.value
    for rule in domain.filters:
        for reason in reasons_of(rule):
            yield str(category_of(reason)), str(reason), rule.type


def drop_names(domain: DomainRules) -> Iterator[str]:
    """The field's names of these, without the prefix that says where they are shown: `drop_zero_std_0.0`."""
    for _, reason, _ in rejections(domain):
        if reason != Reason.ZERO_STD:
            yield f"drop_{reason}"
    for rule in domain.filters:
        if Reason.ZERO_STD in reasons_of(rule):
            yield "drop_zero_std_0.0"
            yield f"drop_zero_std_{round(float(rule.args['max_reward']), 1) + 0.0}"


def reasons_of(rule: FilterRule) -> tuple[Reason, ...]:
    """What a filter of this type says of the groups that it was made for."""
    return _BY_FILTER[rule.type]
