"""What must hold of filters, guards and shadows, and between them and the rest of a configuration."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.config.errors import Path, Problem, nearest
from pipeline.config.filters import Filter
from pipeline.config.guards import Window
from pipeline.config.models import DecisionConfig, any_guard
from pipeline.config.predicates import MaxRepetition

SECTIONS = ("filters", "guard", "shadow_filters")
"""What a domain has of its own, or by its name in a section, or by default."""


def places(config: DecisionConfig) -> Iterator[Problem]:
    """Each domain has filters, and nothing is given twice or for a domain that isn't there."""
    for section in SECTIONS:
        named = getattr(config, section)
        for name, domain in config.domains.items():
            if getattr(domain, section) is not None and name in named:
                message = f"given twice, here and as {section}.{name}; keep one"
                yield Problem(f"{section}_twice", ("domains", name, section), message)
        for name in named.keys() - config.domains.keys() - {"default"}:
            yield Problem("unknown_domain", (section, name), f"no such domain; {nearest(name, config.domains)}")
    for name, domain in config.domains.items():
        switched = config.filter_zero_std_groups is not None
        if not (domain.filters or name in config.filters or "default" in config.filters or switched):
            message = (
                "the domain has no filters, and filters.default is not given; add one ({type: no_filter} keeps all)"
            )
            yield Problem("no_filters", ("domains", name), message)


def without_effect(config: DecisionConfig) -> Iterator[Problem]:
    """Filters, shadows and predicates that have no effect or only one, though they look otherwise: cautions."""
    for section in ("filters", "shadow_filters"):
        for path, link in _links(config, section):
            if why := link.never_rejects():
                yield Problem("never_rejects", path, f"{link.type} never rejects a group: {why}, or take no_filter")
            if rarely := link.hardly_rejects():
                message = f"{link.type} rejects nothing unless {rarely}, or take no_filter"
                yield Problem("hardly_rejects", path, message)
    yield from _one_sided_shadows(config)
    for place, predicate in enumerate(config.response_filter):
        if isinstance(predicate, MaxRepetition) and predicate.share >= 1:
            message = "max_repetition never rejects a response: no share is above 1; write one such as 0.5"
            yield Problem("never_rejects", ("response_filter", place), message)


def _one_sided_shadows(config: DecisionConfig) -> Iterator[Problem]:
    """Shadows that would say the same of every group; a filter like that is refused."""
    for path, link in _links(config, "shadow_filters"):
        low, high, _ = link.kept_means()
        if _empty([link.kept_means()]):
            message = f"keeps no group: no mean lies between {low:g} and {high:g}; swap or widen them"
            yield Problem("never_accepts", path, f"{link.type} {message}")
        elif link.needs_spread and config.group_size == 1:
            message = "says the same of every group: one response has no spread; take mean_filter or band"
            yield Problem("group_of_one", path, f"{link.type} {message}")


def _never_accepts(config: DecisionConfig) -> Iterator[Problem]:
    for name in config.domains:
        ranges: dict[str, list[tuple[float, float, bool]]] = {}
        for path, link in _links(config, "filters", name):
            metric = getattr(link, "metric", None) or config.metric
            alone = link.kept_means()
            together = ranges.setdefault(metric, [])
            together.append(alone)
            if _empty([alone]):
                message = (
                    f"keeps no group: no mean of {metric} lies between {alone[0]:g} and {alone[1]:g}; expected "
                    "the lower bound below the upper one: swap or widen them"
                )
            elif _empty(together):
                low, high = max(r[0] for r in together[:-1]), min(r[1] for r in together[:-1])
                message = (
                    f"keeps means of {metric} from {alone[0]:g} to {alone[1]:g}, and what stands before it from "
                    f"{low:g} to {high:g}; expected a mean that all of them keep: widen one"
                )
            else:
                continue
            yield Problem("never_accepts", path, f"{link.type} {message}")
            break


def _empty(ranges: list[tuple[float, float, bool]]) -> bool:
    """Whether no mean is in all of them; each says from, to, and whether these two are in it."""
    low, high = max(r[0] for r in ranges), min(r[1] for r in ranges)
    return low > high or (low == high and any(not kept and not from_ < low < to for from_, to, kept in ranges))


def _group_of_one(config: DecisionConfig) -> Iterator[Problem]:
    if config.group_size > 1:
        return
    for name in config.domains:
        for link in config.chain(name):
            if link.needs_spread:
                message = (
                    f"is 1, but the filter {link.type} of domain {name} needs a spread of rewards; expected at "
                    "least 2: write group_size: 2 or more, or take a filter of means (mean_filter, band) or no_filter"
                )
                yield Problem("group_of_one", ("group_size",), message)


def _filter_partitions(config: DecisionConfig) -> Iterator[Problem]:
    guarded = any_guard(config.domains, config.guard)
    if guarded and config.filter_partitions > 1:
        message = (
            f"is {config.filter_partitions}, but a guard must see all groups of its domain; expected 1: write "
            "filter_partitions: 1, or leave it out"
        )
        yield Problem("guard_partitions", ("filter_partitions",), message)
    elif config.filter_partitions not in (1, config.partitions):
        message = f"is {config.filter_partitions}; expected 1, or {config.partitions} as partitions"
        yield Problem("filter_partitions", ("filter_partitions",), message)


def _switch(config: DecisionConfig) -> Iterator[Problem]:
    on = config.filter_zero_std_groups
    for name in config.domains if on is not None else ():
        for link in config.own_chain(name):
            if link.type == "custom" and on:
                message = (
                    f"is true, but domain {name} has the custom filter {link.factory}, and it isn't said whether that "
                    "takes the place of the built-in one: set it to false for yours alone, or leave it out and write "
                    "zero_std and custom in the chain for both"
                )
                yield Problem("custom_and_built_in", ("filter_zero_std_groups",), message)
            elif link.type in ("zero_std", "finished_zero_std"):
                how = "adds the same filter again" if on else "says that there is none"
                message = f"is {str(on).lower()}, which {how}, but domain {name} has {link.type}: leave one of them out"
                yield Problem("built_in_twice", ("filter_zero_std_groups",), message)


def _guards(config: DecisionConfig) -> Iterator[Problem]:
    for name in config.domains:
        guard = config.guard_of(name)
        if isinstance(guard, Window) and guard.min_samples > guard.window:
            message = f"is {guard.min_samples}; expected at most {guard.window}, which is all that the window holds"
            yield Problem("guard_never_acts", (*_home(config, name, "guard"), "min_samples"), message)


def _links(config: DecisionConfig, section: str, domain: str | None = None) -> Iterator[tuple[Path, Filter]]:
    """The filters of a section with their places, each place once; of one domain or of all."""
    seen: list[Path] = []
    for name in config.domains if domain is None else [domain]:
        home = _home(config, name, section)
        if home not in seen:
            seen.append(home)
            links = config.own_chain(name) if section == "filters" else config.shadows_of(name)
            yield from (((*home, place), link) for place, link in enumerate(links))


def _home(config: DecisionConfig, domain: str, section: str) -> Path:
    """Where a domain's own, or named, or default setting stands."""
    if getattr(config.domains[domain], section) is not None:
        return ("domains", domain, section)
    return (section, domain if domain in getattr(config, section) else "default")


FILTER_CHECKS = (_never_accepts, _group_of_one, _filter_partitions, _switch, _guards)
