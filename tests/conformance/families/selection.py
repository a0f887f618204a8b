"""RAGEN's selection. Groups become members of the product's own, group i has the id `<i>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any

from pipeline.domain import selection
from pipeline.domain.events import Member, Scores
from pipeline.domain.grouping import scores_of
from pipeline.domain.vocabulary import FinishReason, Grading

from ..family import Case, Departure, Family, NotCompared, Refused
from .purpose import refused

OPTIONS = {"strategy": "strategy", "value": "value", "metric": "metric", "type": "keep", "top_p_prob_mode": "mode",
           "selection_eps": "eps", "include_zero": "include_zero"}  # fmt: skip
NUMBER_OF_MEMBER = {
    "rewards": lambda reward: reward,
    "token_rewards": fsum,
    "turn_rewards": lambda turns: turns[0],
    "lengths": lambda tokens: tokens,
    "turn_lengths": fsum,
    "entropies": lambda tokens: fsum(tokens) / max(len(tokens), 1),
    "turn_entropies": lambda turns: fsum(turns) / len(turns),
}
UNSCORED = NotCompared("the score of a group of one, or with a reward that is not finite, was NaN")


def whole_filter(case: Case) -> Mapping[str, Any]:
    """From a batch to kept groups, kept rows, scores and metrics."""
    source, rules = case["input"], _rules(case["input"]["config"])
    kind, groups = source["kind"], source.get("data") or source["episodes"]
    numbers = [[NUMBER_OF_MEMBER[kind](member) for member in group] for group in groups]
    scores = [selection.score(_scores(kind, members), rules.metric) for members in numbers]
    kept = sorted(_select(scores, rules))
    odd = any(len(members) == 1 for members in numbers) or None in scores
    rows = _rows(kind, groups)
    return {
        "kept": kept,
        "kept_rows": [row for group in kept for row in rows[group]],
        "empty_after_filter": not kept,
        "group_scores": UNSCORED if odd else scores,
        "metrics": UNSCORED if odd else _metrics(kind, numbers, scores, kept),
    }


def selector(case: Case) -> Mapping[str, Any]:
    """The selector alone, fed with scores."""
    scores = case["input"]["data"]
    return {"kept": sorted(_select(scores, _rules(case["input"]["config"]))), "group_scores": scores}


def worked_example(case: Case) -> Mapping[str, Any]:
    """A commented example, with the order by rank."""
    source, rules = case["input"], _rules(case["input"]["config"])
    members = source.get("rewards", [])
    scores = source.get("scores") or [selection.score(_scores("rewards", group), rules.metric) for group in members]
    ranked, size = _select(scores, rules), source["group_size"] or 0
    unranked = source["tag"].startswith("nofilter")
    return {
        "kept": sorted(ranked),
        "kept_ranked": NotCompared("the order where all are kept") if unranked else ranked,
        "kept_rows": [row for group in sorted(ranked) for row in range(group * size, group * size + size)],
        "empty_after_filter": not ranked,
    }


def worked_examples(document: Mapping[str, Any]) -> list[Case]:
    """Examples in the form of the other files."""
    compared = ("kept", "kept_ranked", "kept_rows", "empty_after_filter")
    return [
        {"name": e["id"], "input": e, "expected": {k: e[k] for k in compared if k in e}} for e in document["examples"]
    ]


def _rules(config: Mapping[str, Any]) -> selection.SelectionRules:
    try:
        return selection.SelectionRules(**{OPTIONS[name]: value for name, value in config.items()})
    except ValueError as error:
        raise Refused(str(error)) from error


def _select(scores: Sequence[float | None], rules: selection.SelectionRules) -> list[int]:
    """By rank. Ids of equal length have the order of their numbers."""
    return [int(group) for group in selection.select([(f"{i:06d}", s) for i, s in enumerate(scores)], rules)]


def _rows(kind: str, groups: Sequence[Sequence[Any]]) -> list[list[int]]:
    """The rows of each group: one a member, or one a turn."""
    rows, end = [], 0
    for group in groups:
        start, end = end, end + (sum(map(len, group)) if kind.startswith("turn") else len(group))
        rows.append(list(range(start, end)))
    return rows


def _scores(kind: str, numbers: Sequence[float]) -> Scores:
    """The product's scores of members with these rewards, lengths or entropies."""
    return scores_of(
        Member(
            slot=slot, round=0, payload_key=None, payload_bytes=0,
            reward=number if "rewards" in kind else 0.0, raw_score=None, penalties=0.0, components={},
            entropy=number if "entropies" in kind else None, grading=Grading.GRADED, failure=None,
            finish_reason=FinishReason.STOP, drop_flag=False, env_timeout=False, env_failed=False,
            prompt_tokens=0, response_tokens=int(number) if "lengths" in kind else 0,
            oldest_version=0, newest_version=0, generator="",
        )
        for slot, number in enumerate(numbers)
    )  # fmt: skip


def _metrics(
    kind: str, groups: Sequence[Sequence[float]], scores: Sequence[float | None], kept: Sequence[int]
) -> dict[str, float]:
    """The product's numbers under the recorded names."""
    what = {"rewards": "reward", "lengths": "length", "entropies": "entropy"}[kind.split("_")[-1]]
    named = {
        "filter_kept_count": float(len(kept)),
        "filter_kept_ratio": len(kept) / len(groups),
        "filter_zero_count": float(selection.zero_count(scores)),
    }
    for prefix, some in (("in_group", groups), ("chosen_in_group", [groups[g] for g in kept])):
        for name, value in selection.spread(some).items():
            named[f"{prefix}_{name}"] = named[f"{prefix}_{what}_{name}"] = value
    return {f"rollout/{name}": value for name, value in named.items()}


def _with(case: Case, **changed: Any) -> Case:
    return {**case, "input": {**case["input"], **changed}}


def _spoilt(case: Case) -> bool:
    return case["input"]["kind"] == "rewards" and not all(isfinite(r) for g in case["input"]["data"] for r in g)


def _without_spoilt(case: Case) -> Mapping[str, Any]:
    """What the other groups alone would give; a share of all groups stays one of all."""
    groups, config = case["input"]["data"], case["input"]["config"]
    left = [i for i, group in enumerate(groups) if all(map(isfinite, group))]
    if config["strategy"] == "top_k":
        config = {**config, "strategy": "top_k_abs", "value": int(config["value"] * len(groups))}
    return {"kept": [left[i] for i in whole_filter(_with(case, data=[groups[i] for i in left], config=config))["kept"]]}


def _groups_of_one(case: Case) -> bool:
    source = case["input"]
    return all(len(g) == 1 for g in source.get("data") or source["episodes"]) and "error" not in case["expected"]


def _as_zeros(case: Case) -> Mapping[str, Any]:
    source = case["input"]
    return {"kept": selector(_with(case, data=[0.0] * len(source.get("data") or source["episodes"])))["kept"]}


def _unknown_unused(case: Case) -> bool:
    """An unknown word that the recorded code never looked at."""
    known = {"type": ("largest", "smallest"), "top_p_prob_mode": ("linear", "softmax")}
    config = case["input"]["config"]
    return "error" not in case["expected"] and any(config.get(k, v[0]) not in v for k, v in known.items())


def _turns_refused(case: Case) -> bool:
    return case["input"]["kind"] == "turn_rewards" and "error" in case["expected"]


def _one_reward(case: Case) -> Mapping[str, Any]:
    data = [[turns[0] for turns in group] for group in case["input"]["episodes"]]
    return {"kept": whole_filter(_with(case, kind="rewards", data=data))["kept"]}


FAMILIES = {
    "ragen_filter": Family(
        whole_filter,
        kinds=frozenset(
            {"entropies", "lengths", "rewards", "token_rewards", "turn_entropies", "turn_lengths", "turn_rewards"}
        ),
        departures=[
            Departure("a group with a reward that is not finite is no candidate", _spoilt, _without_spoilt),
            Departure("the deviation of a group of one is 0, not NaN", _groups_of_one, _as_zeros),
            Departure("an unknown word is refused, used or not", _unknown_unused, refused),
            Departure("a response has one reward, however many turns it has", _turns_refused, _one_reward),
        ],
    ),
    "ragen_selector_scores": Family(selector, kinds=frozenset({"scores"})),
    "ragen_worked_examples": Family(worked_example, read=worked_examples),
}
