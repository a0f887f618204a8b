"""The decision configuration as the pure stages need it: read from RunStarted's canonical JSON, nothing has a default
here (pipeline/config is the one place for defaults and checks)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from pipeline.domain.selection.rules import SelectionRules
from pipeline.domain.selection.weights import Rescale
from pipeline.domain.vocabulary import StarvationPolicy

DECISION_VERSIONS: dict[str, int] = {
    "scheduler": 2,
    "assembler": 2,
    "filter": 4,
    "batcher": 2,
    "reaper": 1,
    "discard-reaper": 1,
    "trainer": 2,
}
"""Raised when a stage would decide differently on the same input. A run keeps the versions that it was started with."""

Replacement = Literal["next_prompt", "same_prompt", "new_seed"]


@dataclass(frozen=True, slots=True)
class FilterRule:
    """One filter of a chain: its type and its arguments, as configured."""

    type: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GuardRule:
    """A guard: its type and its arguments, as configured."""

    type: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DomainRules:
    """A domain's share of a batch (`quota`, groups), its filter chain, its guard, and filters without effect. `drawn`:
    prompts that the run from which this one was forked had drawn; the next one is the first here."""

    name: str
    quota: int
    filters: tuple[FilterRule, ...]
    filter_hash: str
    guard: GuardRule | None = None
    shadows: tuple[FilterRule, ...] = ()
    drawn: int = 0


@dataclass(frozen=True, slots=True)
class AssemblyRules:
    """`count`: complete at group_size kept responses (valid) or arrivals (any). Times are run time, milliseconds."""

    count: Literal["valid", "any"]
    max_rounds: int
    lease_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class EvaluationRules:
    """Evaluate before the first batch, every `every` steps and at the end; `every` 0: never. `limit` 0: all prompts."""

    every: int
    samples: int
    max_open: int
    limit: int


@dataclass(frozen=True, slots=True)
class StarvationRules:
    """When a domain starves: K rejections in a row, acceptance under x in a window, time without progress. 0: off."""

    policy: StarvationPolicy
    rejections_in_a_row: int
    min_acceptance: float
    window: int
    no_progress_ms: int


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """Selection of groups by windows of `window` accepted ones: by rank, or by the user's own code (`custom`)."""

    window: int
    refill: bool
    loss_rescale: Rescale
    variance_stop: bool
    ranked: SelectionRules | None
    soft_weights: bool
    custom: FilterRule | None


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that decides, for one run. Sizes in bytes, times in milliseconds of run time."""

    run: str
    seed: int
    steps: int
    partitions: int
    filter_partitions: int
    group_size: int
    redundancy: int
    async_ratio: float
    max_staleness: int
    prefetch: int
    oversample_max: float
    max_open_groups: int
    domains: tuple[DomainRules, ...]
    replacement: Replacement
    expired_replacement: Literal["same_prompt", "next_prompt"]
    max_attempts: int
    max_task_bytes: int
    max_prompt_tokens: int
    too_long: Literal["error", "skip"]
    assembly: AssemblyRules
    evaluation: EvaluationRules
    starvation: StarvationRules
    payload_budget: int
    max_payload_bytes: int
    payload_ttl_ms: int
    checkpoint_every: int
    empty_stop_steps: int
    tick_ms: int
    selection: SelectionSettings | None = None
    exclude_above_pass_rate: float | None = None

    def domain(self, name: str) -> DomainRules:
        """The rules of a domain; KeyError if the run has no such domain."""
        for rules in self.domains:
            if rules.name == name:
                return rules
        raise KeyError(name)

    def ready(self, domain: DomainRules) -> int:
        """Accepted groups that the next batch may need: the quota, or a window, with refill beside a pool that lacks
        one group."""
        if self.selection is None:
            return domain.quota
        return self.selection.window + (domain.quota - 1 if self.selection.refill else 0)

    def lead(self, domain: DomainRules) -> int:
        """Groups that may be accepted and untrained at once: those for a batch, and for `async_ratio` batches more."""
        return ceil(self.ready(domain) * self.async_ratio) + self.ready(domain)


def rules_of(config: str | Mapping[str, Any]) -> Rules:
    """Read the canonical decision configuration of a RunStarted. KeyError if it is not whole."""
    c: Mapping[str, Any] = json.loads(config) if isinstance(config, str) else config
    drawn: Mapping[str, int] = c["start"]["prompts"] if "start" in c else {}
    return Rules(
        **{name: c[name] for name in _PLAIN},
        domains=tuple(_domain(d, drawn.get(d["name"], 0)) for d in c["domains"]),
        selection=_selection(c["selection"]) if "selection" in c else None,
        exclude_above_pass_rate=c.get("exclude_above_pass_rate"),
        assembly=AssemblyRules(**{name: c["assembly"][name] for name in _names(AssemblyRules)}),
        evaluation=EvaluationRules(**{name: c["evaluation"][name] for name in _names(EvaluationRules)}),
        starvation=StarvationRules(
            policy=StarvationPolicy(c["starvation"]["policy"]),
            **{name: c["starvation"][name] for name in _names(StarvationRules) if name != "policy"},
        ),
    )


def _names(cls: type[Any]) -> tuple[str, ...]:
    return tuple(cls.__dataclass_fields__)


_SECTIONS = ("domains", "assembly", "evaluation", "starvation", "selection")
_OPTIONAL = ("exclude_above_pass_rate",)
_PLAIN = tuple(n for n in _names(Rules) if n not in (*_SECTIONS, *_OPTIONAL))


def _domain(d: Mapping[str, Any], drawn: int) -> DomainRules:
    chain, shadows = (tuple(FilterRule(*_typed(f)) for f in d.get(key, ())) for key in ("filters", "shadow_filters"))
    guard = GuardRule(*_typed(d["guard"])) if "guard" in d else None
    return DomainRules(d["name"], d["quota"], chain, d["filter_hash"], guard, shadows, drawn)


def _typed(written: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return written["type"], {key: value for key, value in written.items() if key != "type"}


def _selection(written: Mapping[str, Any]) -> SelectionSettings:
    kind, args = _typed(written)
    ranked = SelectionRules(**{name: args[name] for name in _names(SelectionRules)}) if kind == "ranked" else None
    return SelectionSettings(
        **{name: args[name] for name in ("window", "refill", "loss_rescale", "variance_stop")},
        ranked=ranked,
        soft_weights=args.get("weights") == "soft",
        custom=None if ranked else FilterRule(kind, args),
    )
