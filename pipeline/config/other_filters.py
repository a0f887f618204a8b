"""Filters and guards for a run that is there already: the sections of a configuration that decide about groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any

from pydantic import Field

from pipeline.config.errors import ConfigError, Problem, nearest
from pipeline.config.files import read
from pipeline.config.filter_checks import FILTER_CHECKS, SECTIONS, places
from pipeline.config.filters import Chain, Filter, Shadows
from pipeline.config.guards import Guard, NoGuard
from pipeline.config.load import validated
from pipeline.config.models import DecisionConfig, Domain
from pipeline.config.values import Metric, Name, Section


class OwnFilters(Section):
    """A domain's own."""

    filters: Chain | None = None
    guard: Guard | None = None
    shadow_filters: Shadows | None = None


class OtherFilters(Section):
    """What a file may say. What it leaves open stays as it is in the run, but for its shadows."""

    metric: Metric | None = None
    filters: dict[Name, Chain] = Field({})
    guard: dict[Name, Guard] = Field({})
    shadow_filters: dict[Name, Shadows] = Field({})
    domains: dict[Name, OwnFilters] = Field({})


def with_other_filters(run: DecisionConfig, path: str | File) -> DecisionConfig:
    """A run's configuration, as RunStarted has it, with the filters of a file. Raises ConfigError with the file's
    lines. With a guard it has one filter partition, as such a run must."""
    source = read(path)
    other = validated(OtherFilters, source)
    merged = _merged(run, other)
    problems = list(_unknown(run, other)) or [*places(merged)] or [p for rule in FILTER_CHECKS for p in rule(merged)]
    if problems:
        raise ConfigError([Problem(p.name, p.path, p.message, source.place(p.path)) for p in problems])
    return merged


def _merged(run: DecisionConfig, other: OtherFilters) -> DecisionConfig:
    domains = {name: _domain(run, other, name) for name in run.domains}
    sections = {section: dict(getattr(other, section)) for section in SECTIONS}
    made = run.model_copy(update={"domains": domains, "metric": other.metric or run.metric, **sections})
    guarded = any(made.guard_of(name) for name in domains)
    return made.model_copy(update={"filter_partitions": 1}) if guarded else made


def _domain(run: DecisionConfig, other: OtherFilters, name: str) -> Domain:
    """The domain with what the file says of it, and what the run had where the file says nothing at all."""
    own = other.domains.get(name, OwnFilters())
    update: dict[str, Any] = {"filters": own.filters, "guard": own.guard, "shadow_filters": own.shadow_filters}
    if not (own.filters or _named(other.filters, name)):
        update["filters"] = tuple(_metric_free(link, run.metric) for link in run.chain(name))
    if not (own.guard or _named(other.guard, name)):
        update["guard"] = run.guard_of(name) or NoGuard(type="no_guard")
    return run.domains[name].model_copy(update=update)


def _named(section: Mapping[str, object], domain: str) -> bool:
    return domain in section or "default" in section


def _metric_free(link: Filter, metric: str) -> Filter:
    """A recorded filter of the run's metric, so that the file's can take its place."""
    return link.model_copy(update={"metric": None}) if getattr(link, "metric", None) == metric else link


def _unknown(run: DecisionConfig, other: OtherFilters) -> Iterator[Problem]:
    for name in other.domains.keys() - run.domains.keys():
        yield Problem("unknown_domain", ("domains", name), f"the run has no such domain; {nearest(name, run.domains)}")
