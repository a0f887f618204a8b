"""What decides a run, as a person writes it. Every default is here; `canonical.py` turns it into what is recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from pipeline.config.filters import Chain, Filter, FinishedZeroStd, NoFilter, Shadows, ZeroStd
from pipeline.config.guards import Guard, NoGuard
from pipeline.config.predicates import Predicate
from pipeline.config.selection import Selection
from pipeline.config.start import Start
from pipeline.config.training import Correction, Loss, SampleMasks
from pipeline.config.values import Bytes, Many, Metric, Milliseconds, MillisecondsOrOff, Name, Plugin, RunName, Section

Count = Annotated[int, Field(ge=1, le=10**9)]
CountOrOff = Annotated[int, Field(ge=0, le=10**9)]


def _on_failure() -> Any:
    return os.environ.get("TAMIS_ON_FAILURE") or "drop_response"


class Verifier(Plugin):
    """A judge of responses. `on_failure`: reward 0, or ask for another response, or end the run. Where it isn't given,
    the environment's TAMIS_ON_FAILURE may name another default when a run is created; the run keeps it."""

    on_failure: Literal["zero", "drop_response", "raise"] = Field(default_factory=_on_failure, validate_default=True)
    timeout_s: float = Field(60.0, gt=0, le=86_400)


class Environment(Plugin):
    """Responses are episodes of several turns, played with the engine. Limits of an episode, and of one call of the
    environment. `on_failure` of the environment: ask for another episode, or let it stand with reward 0, masked out."""

    max_turns: Count = 16
    max_tokens: Count = 32_768
    step_timeout_ms: Milliseconds = Field(60_000, alias="step_timeout")
    episode_timeout_ms: Milliseconds = Field(300_000, alias="episode_timeout")
    on_failure: Literal["drop_response", "zero"] = "drop_response"


class Domain(Section):
    """A domain's groups in a batch: `quota`, or its `proportion` of `batch_size`. `filters`, `guard` and
    `shadow_filters` may stand here, or under the domain's name, or under `default`, in the sections of these names."""

    quota: Count | None = None
    proportion: float | None = Field(None, gt=0, le=1)
    filters: Chain | None = None
    guard: Guard | None = None
    shadow_filters: Shadows | None = None


class Assembly(Section):
    """`count`: complete at group_size kept responses (valid), or at the first group_size arrivals (any)."""

    count: Literal["valid", "any"] = "valid"
    max_rounds: Count = 5
    lease_ms: Milliseconds = Field(300_000, alias="lease")
    deadline_ms: Milliseconds = Field(1_800_000, alias="deadline")


class Evaluation(Section):
    """Before the first batch, every `every` batches and at the end; 0: never. `limit` 0: all prompts. `filter`: report
    what the domains' filters would keep, too; nothing is rejected."""

    every: CountOrOff = 20
    samples: Count = 1
    max_open: Count = 64
    limit: CountOrOff = 0
    filter: bool = False


class Starvation(Section):
    """When a domain starves, and what then. A bound of 0 is off; `window`: verdicts that make up acceptance."""

    policy: Literal["raise", "wait", "short_batch"] = "raise"
    rejections_in_a_row: CountOrOff = 0
    min_acceptance: float = Field(0.0, ge=0, le=1)
    window: Count = 100
    no_progress_ms: MillisecondsOrOff = Field(1_800_000, alias="no_progress")


class Payload(Section):
    """Memory for payloads: at most `budget` in all (default 0.7 × Redis' maxmemory) and `max` for one; life `ttl`."""

    budget: Bytes | None = None
    max_bytes: Bytes = Field(2**20, alias="max")
    ttl_ms: Milliseconds = Field(7_200_000, alias="ttl")


class Advantages(Section):
    """grpo: centred, over (std + eps); dr_grpo: centred; leave_one_out: against the mean of the others."""

    kind: Literal["grpo", "dr_grpo", "leave_one_out"] = "grpo"
    eps: float = Field(1e-6, ge=0)
    exclude_truncated: bool = False


def any_guard(domains: Mapping[str, Domain], named: Mapping[str, Guard]) -> bool:
    """Whether a guard is configured; it remembers, so that one filter must see all groups."""
    guards = [*named.values(), *[domain.guard for domain in domains.values()]]
    return any(guard is not None and not isinstance(guard, NoGuard) for guard in guards)


_CONSTANT, _FINISHED = ZeroStd(type="zero_std"), FinishedZeroStd(type="finished_zero_std")


def _default_chains(data: dict[str, Any]) -> dict[Name, Chain]:
    return {"default": (_CONSTANT,)} if data["filter_zero_std_groups"] is None else {}


class DecisionConfig(Section):
    """Everything that decides a run. Addresses, secrets and concurrency are ProcessSettings.

    `filter_zero_std_groups` is MILES' built-in switch: true adds the filter of constant groups to every chain, over the
    finished responses with advantages.exclude_truncated; false says that no chain has it."""

    run: RunName
    seed: int = Field(0, ge=0, lt=2**63)
    steps: Count
    start: Start | None = None

    prompts: Plugin
    eval_prompts: Plugin | None = None
    engine: Plugin
    environment: Environment | None = None
    publication: Literal["drain", "refresh"] = "drain"
    verifiers: dict[Name, Verifier] = Field({})
    learner: Plugin

    group_size: Count = 8
    redundancy: CountOrOff = 0
    batch_size: Count | None = None
    domains: Annotated[dict[Name, Domain], Field(min_length=1)]
    metric: Metric = "reward"
    filter_zero_std_groups: bool | None = None
    filters: dict[Name, Chain] = Field(default_factory=_default_chains)
    guard: dict[Name, Guard] = Field({})
    shadow_filters: dict[Name, Shadows] = Field({})
    response_filter: Many[Predicate] = ()
    selection: Selection | None = None

    async_ratio: float = Field(1.0, ge=0, le=1000)
    max_staleness: CountOrOff = Field(default_factory=lambda data: ceil(data["async_ratio"]))
    prefetch: CountOrOff = Field(default_factory=lambda data: 1 if data["async_ratio"] >= 1 else 0)
    oversample_max: float = Field(2.0, ge=1, le=1000)
    max_open_groups: Count = 512
    replacement: Literal["next_prompt", "same_prompt", "new_seed"] = "next_prompt"
    expired_replacement: Literal["same_prompt", "next_prompt"] = "same_prompt"
    max_attempts: CountOrOff = 0
    exclude_above_pass_rate: float | None = Field(None, gt=0, le=1)
    max_task_bytes: int = Field(262_144, ge=1, le=1_000_000)
    max_prompt_tokens: Count = 32_768
    too_long: Literal["error", "skip"] = "error"

    partitions: int = Field(2, ge=1, le=4096)
    filter_partitions: int = Field(
        default_factory=lambda data: 1 if any_guard(data["domains"], data["guard"]) else data["partitions"],
        ge=1,
        le=4096,
    )
    assembly: Assembly = Assembly()
    evaluation: Evaluation = Field(default_factory=Evaluation, validate_default=True)
    starvation: Starvation = Starvation()
    payload: Payload = Payload()
    advantages: Advantages = Advantages()
    correction: Correction | None = None
    loss: Loss | None = None
    sample_masks: SampleMasks | None = None
    checkpoint_every: Count = 10
    empty_stop_steps: CountOrOff = 5
    record_text: Literal["none", "eval", "all"] = "eval"
    tick_ms: Milliseconds = Field(1000, alias="tick")

    @field_validator("evaluation")
    @classmethod
    def _needs_prompts(cls, value: Evaluation, info: ValidationInfo) -> Evaluation:
        """Without evaluation prompts nothing is evaluated, unless `every` asks for it: then the check refuses."""
        asked = "every" in value.model_fields_set
        return value if asked or info.data.get("eval_prompts") else value.model_copy(update={"every": 0})

    def quotas(self) -> dict[str, int]:
        """Groups of each domain in a batch. By proportion it is int(p·batch_size), and the last has the remainder."""
        if self.batch_size is None:
            return {name: domain.quota or 0 for name, domain in self.domains.items()}
        quotas = {name: int((domain.proportion or 0.0) * self.batch_size) for name, domain in self.domains.items()}
        last = list(quotas)[-1]
        quotas[last] += self.batch_size - sum(quotas.values())
        return quotas

    def chain(self, domain: str) -> tuple[Filter, ...]:
        """The filters of a domain, each with the metric that it uses. KeyError if there are none for it."""
        built_in = _FINISHED if self.advantages.exclude_truncated else _CONSTANT
        switched = (built_in,) if self.filter_zero_std_groups else ()
        return tuple(_with_metric(link, self.metric) for link in (*switched, *self.own_chain(domain)))

    def own_chain(self, domain: str) -> tuple[Filter, ...]:
        """The same as it is written, without what the built-in switch adds."""
        own = self.domains[domain].filters or self.filters.get(domain) or self.filters.get("default")
        if own is None and self.filter_zero_std_groups is None:
            raise KeyError(domain)
        return own or (NoFilter(type="no_filter"),)

    def guard_of(self, domain: str) -> Guard | None:
        """The guard of a domain, if it has one."""
        own = self.domains[domain].guard or self.guard.get(domain) or self.guard.get("default")
        return None if isinstance(own, NoGuard) else own

    def shadows_of(self, domain: str) -> tuple[Filter, ...]:
        """The filters of a domain that are only recorded, each with the metric that it uses."""
        own, named = self.domains[domain].shadow_filters, self.shadow_filters
        chosen = named.get(domain, named.get("default", ())) if own is None else own
        return tuple(_with_metric(link, self.metric) for link in chosen)

    def group_bytes(self) -> int:
        """The most that the payloads of a training group take."""
        return (self.group_size + self.redundancy) * self.payload.max_bytes

    def window(self) -> int:
        """Accepted groups that are selected from at once. Without a selection it means nothing."""
        own = self.selection.window if self.selection is not None else None
        return own or sum(self.quotas().values())

    def ready(self) -> dict[str, int]:
        """Groups of each domain that the next batch may need: its quota, or a selection's window, with refill beside
        a batch that lacks one."""
        quotas, selection = self.quotas(), self.selection
        if selection is None:
            return quotas
        return {name: self.window() + (quota - 1 if selection.refill else 0) for name, quota in quotas.items()}

    def batch_bytes(self) -> int:
        """The most that the payloads of the groups take that the next batch may need."""
        return sum(self.ready().values()) * self.group_bytes()

    def evaluation_bytes(self) -> int:
        """The most that the payloads of open evaluation groups take."""
        e = self.evaluation
        return e.max_open * e.samples * self.payload.max_bytes if e.every else 0


def _with_metric(link: Filter, metric: str) -> Filter:
    if getattr(link, "metric", metric) is not None:
        return link
    update: dict[str, Any] = {"metric": metric}
    return link.model_copy(update=update)
