"""A domain's chain of filters in its fixed order; the first rejection is the reason, all measurements are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter
from pipeline.domain.filters.integrity import integrity
from pipeline.domain.filters.variance import zero_std
from pipeline.domain.rules import DomainRules


def no_filter(args: Mapping[str, Any]) -> GroupFilter:
    """Never rejects."""
    return lambda members: Finding("no_filter", None)


FILTERS: dict[str, Callable[[Mapping[str, Any]], GroupFilter]] = {"no_filter": no_filter, "zero_std": zero_std}
"""Filter types by name; the order of this table is the order in a chain."""


class Chain:
    """The filters of one domain."""

    def __init__(self, rules: DomainRules) -> None:
        order = list(FILTERS)
        ordered = sorted(rules.filters, key=lambda f: order.index(f.type))
        self.filter_hash = rules.filter_hash
        self._filters = [FILTERS[f.type](f.args) for f in ordered]

    def decide(self, members: Sequence[Member], group_size: int) -> Finding:
        """The finding that decides, with the measurements of all filters asked so far."""
        finding = integrity(members, group_size)
        measurements = dict(finding.measurements)
        for ask in self._filters:
            if finding.reason is not None:
                break
            finding = ask(members)
            measurements |= finding.measurements
        return Finding(
            finding.filter,
            finding.reason,
            finding.measured,
            finding.threshold,
            finding.metric,
            finding.constant_class,
            finding.metric_name,
            finding.detail,
            measurements,
        )
