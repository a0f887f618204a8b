"""Configurations to simulate: one drawn from each seed, and named ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Literal

from pipeline.domain.ports import Issuable
from pipeline.domain.rules import (
    AssemblyRules,
    DomainRules,
    EvaluationRules,
    FilterRule,
    GuardRule,
    Rules,
    SelectionSettings,
    StarvationRules,
)
from pipeline.domain.selection import SelectionRules
from pipeline.domain.vocabulary import Outcome, StarvationPolicy

MAX_PAYLOAD = 1000
LARGE = 10**9


@dataclass(frozen=True, slots=True)
class Chaos:
    """How often what goes wrong: per chance to go wrong. `constant`: groups whose rewards are all the same."""

    crash: float = 0.0
    kill_all: float = 0.0
    lose_payload: float = 0.0
    damage: float = 0.0
    duplicate: float = 0.0
    silent: float = 0.0
    failed: float = 0.0
    foreign: float = 0.0
    ungraded: float = 0.0
    non_finite: float = 0.0
    filtered: float = 0.0
    constant: float = 0.0

    def calm(self) -> Chaos:
        """Nothing goes wrong any more, and groups are as good as before."""
        return Chaos(constant=self.constant)


@dataclass(frozen=True, slots=True)
class Setup:
    """A run to simulate. `tick_rate`: chance of a tick before anybody's turn. `kill_at`: turn at which every
    process is killed. `stop_at`: turn at which the command line
    sends StopRequested; `fail_at`: turn from which `failing` writes StageFailed. `outage`: verifiers judge nothing, and
    have this policy."""

    name: str
    rules: Rules
    chaos: Chaos
    prompts: int = LARGE
    eval_prompts: int = 0
    tick_rate: float = 0.02
    calm_after: int = 700
    wire: bool = False
    kill_at: int = -1
    stop_at: int = -1
    fail_at: int = -1
    failing: Literal["", "trainer", "scorer", "prompt"] = ""
    huge_payload: float = 0.0
    outage: Literal["", "drop_response", "zero"] = ""
    expected: Outcome | None = Outcome.COMPLETED
    domains: tuple[str, ...] = field(default=())


class Source:
    """Prompts that are their place; `too_long` says which can't be issued."""

    def __init__(self, size: int, too_long: Callable[[int], bool] = lambda ordinal: False) -> None:
        self._size = size
        self._too_long = too_long

    def size(self, domain: str) -> int:
        return self._size

    def at(self, domain: str, ordinal: int, epoch: int) -> Issuable:
        problem = "too many tokens" if self._too_long(ordinal) else None
        return Issuable(f"{domain}:{ordinal}", f"{domain} {ordinal}".encode(), 7, problem)


def rules(**changes: Any) -> Rules:
    """Small, asynchronous, one domain, all else generous."""
    chain = (FilterRule("zero_std", {"tol": 1e-8, "metric": "reward", "max_reward": 1.0}),)
    quotas: dict[str, int] = changes.pop("quotas", {"maths": 2})
    plain = Rules(
        run="sim",
        seed=17,
        steps=4,
        partitions=2,
        filter_partitions=2,
        group_size=4,
        redundancy=0,
        async_ratio=1.0,
        max_staleness=1,
        prefetch=1,
        oversample_max=2.0,
        max_open_groups=64,
        domains=tuple(DomainRules(name, quota, chain, f"hash of {name}") for name, quota in quotas.items()),
        replacement="next_prompt",
        expired_replacement="same_prompt",
        max_attempts=0,
        max_task_bytes=LARGE,
        max_prompt_tokens=100,
        too_long="skip",
        assembly=AssemblyRules("valid", 5, 8_000, 60_000),
        evaluation=EvaluationRules(0, 1, 4, 0),
        starvation=StarvationRules(StarvationPolicy.WAIT, 0, 0.0, 0, 0),
        payload_budget=LARGE,
        max_payload_bytes=MAX_PAYLOAD,
        payload_ttl_ms=LARGE,
        checkpoint_every=2,
        empty_stop_steps=5,
        tick_ms=1000,
    )
    return replace(plain, **changes)


def least_budget(r: Rules) -> int:
    """What the configuration check asks for: the groups that one batch may need, with the largest payloads."""
    return sum(r.ready(d) for d in r.domains) * (r.group_size + r.redundancy) * r.max_payload_bytes


FAULTS = Chaos(
    crash=0.02,
    kill_all=0.001,
    lose_payload=0.002,
    damage=0.004,
    duplicate=0.03,
    silent=0.02,
    failed=0.06,
    foreign=0.02,
    ungraded=0.04,
    non_finite=0.01,
    filtered=0.05,
    constant=0.25,
)


def _chaos(rng: random.Random) -> Chaos:
    """Each kind of fault at its rate, three times its rate, or never; crashes always."""
    rates = {name: getattr(FAULTS, name) * rng.choice((0, 0, 1, 1, 3)) for name in Chaos.__slots__}
    rates["crash"] = FAULTS.crash * rng.choice((0.5, 1, 2))
    rates["constant"] = rng.choice((0.0, 0.15, 0.4))
    return Chaos(**rates)


def drawn(seed: int) -> Setup:
    """The configuration that a seed stands for; each run forms at least six groups of four."""
    rng = random.Random(f"setup {seed}")
    quotas = rng.choice(({"maths": 2}, {"maths": 3}, {"maths": 1, "code": 2}, {"maths": 4}, {"maths": 2, "code": 1}))
    ratio = rng.choice((0.0, 0.5, 1.0, 2.0))
    partitions = rng.randint(1, 3)
    smallest = min(quotas.values())
    most_prefetch = min(ceil(q * ratio) // q for q in quotas.values()) if smallest else 0
    evaluated = rng.random() < 0.5
    r = rules(
        quotas=quotas,
        steps=ceil(13 / sum(quotas.values())) + rng.randint(0, 1),
        partitions=partitions,
        filter_partitions=rng.choice((1, partitions)),
        redundancy=rng.choice((0, 0, 1, 2)),
        async_ratio=ratio,
        max_staleness=ceil(ratio) + rng.choice((0, 0, 1)),
        prefetch=rng.randint(0, min(most_prefetch, 2)),
        oversample_max=rng.choice((1.0, 1.5, 2.0)),
        max_open_groups=rng.choice((1, 3, 64, 64)),
        replacement=rng.choice(("next_prompt", "same_prompt", "new_seed")),
        expired_replacement=rng.choice(("next_prompt", "same_prompt")),
        max_attempts=rng.choice((0, 0, 1, 2, 3)),
        assembly=AssemblyRules(rng.choice(("valid", "valid", "any")), rng.choice((2, 5)), 8_000, 60_000),
        evaluation=EvaluationRules(rng.randint(1, 2), rng.choice((1, 2)), rng.choice((1, 3)), 0)
        if evaluated
        else EvaluationRules(0, 1, 4, 0),
        starvation=StarvationRules(
            rng.choice((StarvationPolicy.WAIT, StarvationPolicy.SHORT_BATCH)), rng.choice((0, 3)), 0.3,
            rng.choice((0, 4)), rng.choice((0, 30_000)),
        ),
        checkpoint_every=rng.randint(1, 3),
        too_long="skip",
    )  # fmt: skip
    if rng.random() < 0.4:
        r = replace(r, payload_budget=int(least_budget(r) * rng.choice((1.0, 1.3, 2.0))))
    r = replace(r, exclude_above_pass_rate=rng.choice((None, None, 0.6)))
    return Setup(
        f"drawn {seed}",
        r,
        _chaos(rng),
        prompts=rng.choice((LARGE, LARGE, LARGE, 13)),
        eval_prompts=rng.randint(1, 3) if evaluated else 0,
        tick_rate=rng.choice((0.0, 0.02, 0.05)),
        kill_at=rng.randint(20, 150),
        wire=rng.random() < 0.1,
    )


def ended(seed: int) -> Setup:
    """A drawn configuration that something ends early, at any moment."""
    rng = random.Random(f"end {seed}")
    setup, turn = replace(drawn(seed), expected=None), rng.randint(1, 400)
    starving = StarvationRules(StarvationPolicy.RAISE, 2, 0.6, 3, 5000)
    match rng.randint(0, 4):
        case 0:
            return replace(setup, name=f"stopped {seed}", stop_at=turn)
        case 1:
            return replace(setup, name=f"failed trainer {seed}", failing="trainer", fail_at=turn)
        case 2:
            return replace(setup, name=f"failed scorer {seed}", failing="scorer", fail_at=turn)
        case 3:
            r = replace(setup.rules, too_long="error")
            return replace(setup, name=f"failed prompt {seed}", failing="prompt", rules=r)
        case _:
            return replace(setup, name=f"starved {seed}", rules=replace(setup.rules, starvation=starving))


def exhausted(seed: int) -> Setup:
    """A drawn configuration with few prompts, many rejections, rare checkpoints and lost payloads."""
    rng = random.Random(f"source {seed}")
    setup = drawn(seed)
    starving = StarvationRules(StarvationPolicy.SHORT_BATCH, rng.choice((0, 2)), 0.3, rng.choice((0, 3)), 0)
    r = replace(setup.rules, checkpoint_every=3, starvation=starving, replacement="next_prompt")
    chaos = replace(setup.chaos, lose_payload=0.02, crash=0.05, constant=rng.choice((0.2, 0.6)))
    return replace(setup, name=f"exhausted {seed}", rules=r, chaos=chaos, prompts=rng.randint(1, 6))


WAYS = (
    SelectionRules(),
    SelectionRules("top_p", 0.6, include_zero=False),
    SelectionRules("top_p", 0.8, mode="softmax"),
    SelectionRules("top_k", 0.5),
    SelectionRules("top_k_abs", 1.0, "reward", "smallest"),
    SelectionRules("min_p", 0.7, "length"),
    SelectionRules("top_p", 0.5, eps=0.2),
)
"""The last keeps nothing of a window whose scores are small."""


def selected(seed: int) -> Setup:
    """A drawn run of one domain, ended or exhausted or neither, with a selection."""
    rng = random.Random(f"selection {seed}")
    setup = rng.choice((drawn, drawn, ended, exhausted))(seed)
    domain = setup.rules.domains[0]
    refill = rng.random() < 0.5
    selection = SelectionSettings(
        window=max(1, ceil(domain.quota * rng.choice((0.5, 1.0, 1.0, 1.5, 2.0)))),
        refill=refill,
        loss_rescale=rng.choice(("none", "linear", "sqrt")),
        variance_stop=True,
        ranked=rng.choice(WAYS),
        soft_weights=rng.random() < 0.5,
        custom=None,
    )
    r = replace(
        setup.rules,
        domains=(domain,),
        selection=selection,
        empty_stop_steps=rng.choice((0, 2, 5)),
        max_staleness=max(setup.rules.max_staleness, int(refill)),
        payload_budget=LARGE,
    )
    if rng.random() < 0.4:
        r = replace(r, payload_budget=int(least_budget(r) * rng.choice((1.0, 1.3, 2.0))))
    return replace(setup, name=f"selected {setup.name}", rules=r)


def _rejecting() -> list[Setup]:
    """Nothing is ever accepted: under each policy of starvation, and because of an outage under each of a verifier."""

    def setup(name: str, policy: StarvationPolicy, outcome: Outcome, *bounds: int, **more: Any) -> Setup:
        row, no_progress_ms = bounds
        starving = StarvationRules(policy, row, 0.0, 0, no_progress_ms)
        chaos = replace(FAULTS, constant=1.0, non_finite=0.0, ungraded=0.0)
        return Setup(name, rules(starvation=starving), chaos, expected=outcome, tick_rate=0.2, **more)

    wait, stopped = StarvationPolicy.WAIT, Outcome.STOPPED
    return [
        setup("starved", StarvationPolicy.RAISE, Outcome.STARVED, 5, 0),
        setup("starved_waits", wait, stopped, 3, 0, stop_at=1200),
        setup("starved_skips", StarvationPolicy.SHORT_BATCH, Outcome.COMPLETED, 5, 0),
        setup("outage", StarvationPolicy.RAISE, Outcome.STARVED, 5, 60_000, outage="drop_response"),
        setup("outage_zero", StarvationPolicy.RAISE, Outcome.STARVED, 5, 0, outage="zero"),
    ]


def _answering() -> list[Setup]:
    """Many rejections and expiries, answered by each policy, at most twice, from few prompts and from many."""
    chaos = replace(FAULTS, constant=0.5, lose_payload=0.02)

    def setup(replacement: str, expired: str, prompts: int) -> Setup:
        answers: dict[str, Any] = {"replacement": replacement, "expired_replacement": expired}
        r = rules(max_attempts=2, steps=8, exclude_above_pass_rate=0.6, redundancy=1, **answers)
        return Setup(f"answered_by_{replacement}", r, chaos, prompts=prompts)

    return [
        setup("next_prompt", "same_prompt", 13),
        setup("same_prompt", "next_prompt", LARGE),
        setup("new_seed", "next_prompt", 29),
    ]


def _named() -> dict[str, Setup]:
    def setup(name: str, chaos: Chaos = FAULTS, **more: Any) -> Setup:
        ours = {key: more.pop(key) for key in tuple(more) if key in Setup.__slots__}
        return Setup(name, rules(**more), chaos, **ours)

    window = GuardRule("window", {"window": 8, "min_samples": 2, "max_ratio": 0.5, "keep_after": 3})
    guarded = tuple(replace(domain, guard=window, shadows=domain.filters) for domain in rules().domains)
    slow_checkpoints = rules(checkpoint_every=100, steps=6)
    evaluating = EvaluationRules(1, 2, 2, 0)
    setups = [
        setup("finished"),
        setup("stopped", stop_at=150, expected=Outcome.STOPPED, steps=50),
        setup("stopped_at_once", stop_at=1, expected=Outcome.STOPPED),
        *_rejecting(),
        setup("failed_trainer", fail_at=100, failing="trainer", expected=Outcome.FAILED, steps=50),
        setup("failed_scorer", fail_at=100, failing="scorer", expected=Outcome.FAILED, steps=50),
        setup("failed_prompt", failing="prompt", too_long="error", expected=Outcome.FAILED, steps=50),
        setup("source_exhausted", replace(FAULTS, constant=0.9), prompts=7, replacement="next_prompt", steps=50),
        setup("checkpoints_rarer_than_budget", payload_budget=least_budget(slow_checkpoints), checkpoint_every=100,
              steps=6),
        setup("unequal_quotas", quotas={"maths": 4, "code": 1}, max_open_groups=2),
        setup("evaluation_while_full", payload_budget=least_budget(rules()), evaluation=evaluating, eval_prompts=5),
        setup("one_huge_payload", payload_budget=least_budget(rules()), huge_payload=0.02),
        setup("guarded", replace(FAULTS, constant=0.7), domains=guarded, filter_partitions=1),
        *_answering(),
        setup("counting_any", replace(FAULTS, filtered=0.3), redundancy=1,
              assembly=AssemblyRules("any", 3, 8_000, 60_000)),
        setup("async_0", async_ratio=0.0, max_staleness=0, prefetch=0),
        setup("async_half", async_ratio=0.5, max_staleness=1, prefetch=0),
        setup("async_1", async_ratio=1.0, max_staleness=1, prefetch=1),
        setup("async_2", async_ratio=2.0, max_staleness=2, prefetch=2),
    ]  # fmt: skip
    return {s.name: s for s in setups}


NAMED = _named()
NAMED |= {
    f"{steps}_steps": replace(NAMED["async_1"], name=f"{steps}_steps", rules=rules(steps=steps)) for steps in (15, 120)
}  # the same run, short and long

DRAWN = {"drawn": drawn, "ended": ended, "exhausted": exhausted, "selected": selected}


def setup_of(name: str, seed: int) -> Setup:
    """The configuration of a name: a fixed one, or one drawn from the seed."""
    return DRAWN[name](seed) if name in DRAWN else NAMED[name]


ENDS = (
    "finished", "stopped", "stopped_at_once", "starved", "starved_waits", "starved_skips", "outage", "outage_zero",
    "failed_trainer", "failed_scorer", "failed_prompt",
    "source_exhausted",
)  # fmt: skip
LIVENESS = tuple(name for name in NAMED if name not in ENDS and not name.endswith("_steps"))
