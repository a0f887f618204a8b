"""Other systems' control loops, as far as they decide: verdicts, staleness and the order of acceptance.

When groups are drawn, what is in flight, and which queue holds what is theirs; arrivals are taken as recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import FilterRule
from pipeline.domain.vocabulary import Reason
from tests.domain.given import LARGE, MEMBERS, Feed, assembled, rules, started

from ..family import Case, Departure, Excluded, NotCompared
from .groups import finite, member

THEIRS = NotCompared("waves, queues and what is in flight are the other system's own")


class Loop:
    """The product's filter and, behind it, its batcher for batches of `quota` groups."""

    def __init__(self, quota: int, filter: FilterRule, version: int = 0, max_staleness: int | None = None) -> None:
        limit = LARGE if max_staleness is None else max_staleness
        one = replace(rules(quotas={"maths": quota}), prefetch=0, max_staleness=limit)
        chain = replace(one.domains[0], filters=(filter,))
        one = replace(one, domains=(chain,))
        self._filter, self._batcher = Feed(Filter(one, MEMBERS)), Feed(Batcher(one))
        self._batcher(started(version=version))
        self.rejected: list[e.GroupRejected] = []
        self.accepted: list[int] = []
        self.expired = 0

    def arrive(self, ordinal: int, rewards: Sequence[Any], size: int, version: int = 0) -> bool:
        """A group arrives: whether a batch is formed with it."""
        who = [member(slot, reward, [version]) for slot, reward in enumerate(rewards)]
        batches = [b for verdict in self._filter(assembled(f"{ordinal}@0", who, size)) for b in self._verdict(verdict)]
        for batch in batches:
            self.accepted += [int(group.group_id.partition("@")[0]) for group in batch.groups]
        return bool(batches)

    def _verdict(self, verdict: e.Event) -> Iterator[e.BatchFormed]:
        if isinstance(verdict, e.GroupRejected):
            self.rejected.append(verdict)
        for answer in self._batcher(verdict):
            self.expired += isinstance(answer, e.GroupExpired)
            if isinstance(answer, e.BatchFormed):
                yield answer


def _zero_std(on: bool, max_reward: float = 1.0) -> FilterRule:
    args = {"tol": 1e-8, "metric": "reward", "max_reward": max_reward}
    return FilterRule("zero_std", args) if on else FilterRule("no_filter", {})


def slime_waves(case: Case) -> Mapping[str, Any]:
    """Groups in the order in which they finish, until the batch is full. A verdict is told by rewards that have it."""
    asked, expected = case["input"], case["expected"]
    size, verdicts = asked["n_samples_per_prompt"], asked["verdicts"]
    loop = Loop(asked["rollout_batch_size"], _zero_std(asked.get("filter", True)))
    order: Sequence[int] = range(asked.get("max_finished", 10_000))
    if asked.get("finish_order") == "last_drawn":
        order = range(expected["wave_sizes"][0] - 1, -1, -1)
    finished, filled = 0, False
    for ordinal in order:
        kept = verdicts[ordinal] if ordinal < len(verdicts) else True
        filled = loop.arrive(ordinal, [0.0] * (size - 1) + [1.0 if kept else 0.0], size)
        finished += 1
        if filled:
            break
    drops = Counter(f"rollout/dynamic_filter/{verdict.metric_name}" for verdict in loop.rejected)
    return {"filled": filled, "groups_finished": finished, "accepted_ordinals": sorted(loop.accepted),
            "dropped": len(loop.rejected), "metrics": dict(drops), "wave_sizes": THEIRS, "groups_drawn": THEIRS,
            "in_flight_when_full": THEIRS}  # fmt: skip


def open_instruct_accumulate(case: Case) -> Mapping[str, Any]:
    """The results that were taken from the queue, one by one, for batches of one group."""
    asked, expected = case["input"], case["expected"]
    best = float(asked.get("max_possible_score", 1.0))
    filter = _zero_std(asked.get("filter_zero_std_samples", True), best)
    taken, classes = asked["results"][: len(asked["results"]) - expected["results_left_in_queue"]], Counter[str]()
    groups, stale = list[int](), 0
    for ordinal, result in enumerate(taken):
        loop = Loop(1, filter, asked.get("training_step", 0), asked.get("max_result_age_steps"))
        if loop.arrive(ordinal, result["rewards"], asked["n_samples_per_prompt"], result["model_step"]):
            groups.append(ordinal)
        stale += loop.expired
        classes.update(str(verdict.constant_class) for verdict in loop.rejected if verdict.reason is Reason.ZERO_STD)
    return {"outcome": "batch" if groups else "all_filtered", "groups": groups, "stale_results_dropped": stale,
            "filtered_prompts": sum(classes.values()), "filtered_prompts_zero": classes["all_zero"],
            "filtered_prompts_solved": classes["all_max"], "filtered_prompts_nonzero": classes["constant"],
            "replacement_prompts_pushed": THEIRS, "results_left_in_queue": THEIRS, "prompts_excluded": THEIRS,
            "no_resampled_prompts": THEIRS}  # fmt: skip


def _is(case: Case, kind: str) -> bool:
    return bool(case["input"].get("kind") == kind)


def _broken(case: Case) -> list[int]:
    """Groups that are taken as recorded, though a reward is not finite or the group is constant."""
    asked, kept = case["input"], case["expected"].get("groups", [])
    filtered = asked.get("filter_zero_std_samples", True)
    all = [result["rewards"] for result in asked.get("results", [])]
    return [n for n in kept if not finite(all[n]) or (filtered and len(set(all[n])) == 1)]


def _without_broken(case: Case) -> Mapping[str, Any]:
    kept = [n for n in case["expected"]["groups"] if n not in _broken(case)]
    return {"outcome": "batch" if kept else "all_filtered", "groups": kept}


KINDS = {"slime_waves": slime_waves, "open_instruct_accumulate": open_instruct_accumulate}

EXCLUDED = (
    Excluded(
        "kind slime_waves: groups of one, which zero_std can't tell apart",
        lambda case: _is(case, "slime_waves") and case["input"]["n_samples_per_prompt"] == 1,
    ),
    Excluded(
        "kind slime_waves: the last drawn finish first in several waves, whose times are theirs",
        lambda case: (
            _is(case, "slime_waves")
            and case["input"].get("finish_order") == "last_drawn"
            and len(case["expected"]["wave_sizes"]) > 1
        ),
    ),
    Excluded(
        "kind slime_waves: a fallback that looks at what is in flight (its rule is compared in zero_std)",
        lambda case: _is(case, "slime_waves") and case["input"].get("keep_when_insufficient") is True,
    ),
    Excluded(
        "kind open_instruct_accumulate: a queue that runs dry; the product waits",
        lambda case: _is(case, "open_instruct_accumulate") and case["expected"]["outcome"] == "queue_exhausted",
    ),
)
DEPARTURES = (
    Departure(
        "a group of another size is rejected as provenance, not an error",
        lambda case: _is(case, "open_instruct_accumulate") and case["expected"]["outcome"] == "error",
        lambda case: {"outcome": "batch", "groups": [0]},
    ),
    Departure(
        "a group with a reward that is not finite, or with equal rewards, is not trained on",
        lambda case: _is(case, "open_instruct_accumulate") and _broken(case) != [],
        _without_broken,
    ),
)
