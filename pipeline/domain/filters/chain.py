"""A domain's chain of filters in its fixed order; the first rejection is the reason, all measurements are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.domain.events import Member, ShadowVerdict
from pipeline.domain.filters.custom import Customs, custom
from pipeline.domain.filters.finding import Finding, GroupFilter
from pipeline.domain.filters.flags import drop_flag
from pipeline.domain.filters.guard import Guard
from pipeline.domain.filters.integrity import graded, provenance, whole
from pipeline.domain.filters.level import band, mean_filter
from pipeline.domain.filters.unknown import unless_unknown
from pipeline.domain.filters.variance import finished_zero_std, std_filter, zero_std
from pipeline.domain.rules import DomainRules, FilterRule


def no_filter(args: Mapping[str, Any]) -> GroupFilter:
    """Never rejects."""
    return lambda members: Finding("no_filter", None)


FILTERS: dict[str, Callable[[Mapping[str, Any]], GroupFilter]] = {
    "provenance": provenance,
    "no_filter": no_filter,
    "drop_flag": drop_flag,
    "finished_zero_std": finished_zero_std,
    "zero_std": zero_std,
    "std_filter": std_filter,
    "mean_filter": mean_filter,
    "band": band,
}
"""Filter types by name, besides `custom`, which is last; the order of this table is the order in a chain."""

_ORDER = [*FILTERS, "custom"]


class Chain:
    """The filters of one domain, its guard, and its shadows: filters that are asked and have no effect. `customs`
    gives the callables of custom filters."""

    def __init__(self, rules: DomainRules, customs: Customs | None = None) -> None:
        self._customs = customs
        ordered = sorted(rules.filters, key=lambda f: _ORDER.index(f.type))
        self.filter_hash = rules.filter_hash
        self.guard = Guard(rules.guard, rules.name) if rules.guard is not None else None
        before = [self._made(f) for f in ordered if f.type == "provenance"]
        self._filters = [*before, graded, *[self._made(f) for f in ordered if f.type != "provenance"]]
        self._shadows = [(name, self._made(f)) for name, f in _named(rules.shadows)]

    def decide(self, members: Sequence[Member], group_size: int) -> Finding:
        """The finding that decides, with the measurements of all filters asked so far. A group that is kept has the
        last finding that measured something."""
        finding = whole(members, group_size)
        measurements: dict[str, float] = {}
        for ask in self._filters:
            if finding.reason is not None:
                break
            newer = unless_unknown(ask, members)
            measurements |= newer.measurements
            if newer.reason is not None or newer.measured is not None or finding.measured is None:
                finding = newer
        return finding if measurements == finding.measurements else finding._replace(measurements=measurements)

    def shadows(self, members: Sequence[Member]) -> tuple[ShadowVerdict, ...]:
        """What each shadow says of a group with rewards; as in the chain, what nobody judged is no lack of signal."""
        return tuple([_shadow(name, unless_unknown(ask, members)) for name, ask in self._shadows])

    def _made(self, rule: FilterRule) -> GroupFilter:
        if rule.type != "custom":
            return FILTERS[rule.type](rule.args)
        if self._customs is None:
            raise ValueError(f"the custom filter {rule.args['factory']} needs its callable, which nobody built")
        return custom(rule, self._customs(rule))


def _shadow(name: str, finding: Finding) -> ShadowVerdict:
    return ShadowVerdict(name, finding.reason is None, finding.reason, finding.measured)


def _named(rules: Sequence[FilterRule]) -> Iterator[tuple[str, FilterRule]]:
    """Each with its type as its name; the second of a type is `type_2`."""
    for index, rule in enumerate(rules):
        nth = [r.type for r in rules[: index + 1]].count(rule.type)
        yield rule.type if nth == 1 else f"{rule.type}_{nth}", rule
