"""RAGEN's selection. Groups become members of the product's own, group i has the id `<i>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isfinite, nan
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
ROUNDED = NotCompared("the scores that are kept where rounding decides which")
DEVIATIONS = ("reward_variance", "entropy_variance")
FLOAT32 = {name: {"abs": 1e-5, "rel": 1e-5} for name in ("group_scores", "kept_scores_sorted")}
"""Of the worked examples, whose file states no tolerance: it calls this near a threshold, or rounding noise."""


def whole_filter(case: Case) -> Mapping[str, Any]:
    """From a batch to kept groups, kept rows, scores and metrics."""
    source, rules = case["input"], _rules(case["input"]["config"])
    kind, groups, numbers = source["kind"], _groups(source), _numbers(source)
    scores = _group_scores(source, rules)
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
    """A commented example, with the order by rank. Where rounding decides, any scores may be kept."""
    source, rules, by_scores = case["input"], _rules(case["input"]["config"]), case["input"]["kind"] == "scores"
    answer = selector(case) if by_scores else whole_filter(case)
    scores = source["data"] if by_scores else _group_scores(source, rules)
    ranked = _select(scores, rules)
    odd = answer["group_scores"] is UNSCORED
    settled = not (case.get("float_sensitive") or case.get("float_noise_scores"))
    return {
        **answer,
        "kept_ranked": _order(case, ranked, scores, rules),
        "kept_count": len(ranked),
        "kept_scores_sorted": UNSCORED if odd else sorted(scores[g] for g in ranked) if settled else ROUNDED,
        "empty_after_filter": not ranked,
    }


def _order(case: Case, ranked: list[int], scores: Sequence[float | None], rules: selection.SelectionRules) -> Any:
    """By rank, or as recorded if that differs in the order of equal scores alone."""
    recorded = case["expected"].get("kept_ranked", [])
    if rules.strategy == "top_p" and rules.value >= 1.0:
        return NotCompared("the order where all are kept")
    equal = sorted(recorded) == sorted(ranked) and [scores[g] for g in recorded] == [scores[g] for g in ranked]
    return recorded if equal else ranked


def worked_examples(document: Mapping[str, Any]) -> list[Case]:
    """Examples in the form of the other files."""
    return [_worked(example) for example in document["examples"]]


def _worked(example: Mapping[str, Any]) -> Case:
    """`fields` in the file's `meta` says what each key means. Of a tie at the cut only scores and count are stable."""
    kind, flags = example["input_kind"], ("float_sensitive", "float_noise_scores")
    scores = [nan if s is None else s for s in example.get("group_scores") or []]
    tied = bool(example.get("boundary_tie"))
    told = ("empty_after_filter", "kept_scores_sorted", *(() if tied else ("kept", "kept_ranked", "kept_rows")))
    expected = {name: example[name] for name in told if name in example}
    expected |= {"group_scores": scores} if scores else {}
    expected |= {"kept_count": len(example["kept"])} if tied else {}
    return {
        "name": example["id"],
        "input": {"kind": kind, "data": example[kind], "config": example["config"]},
        "expected": {"error": example["error"]} if example.get("error") else expected,
        **{flag: example.get(flag, False) for flag in flags},
    }


def _rules(config: Mapping[str, Any]) -> selection.SelectionRules:
    try:
        return selection.SelectionRules(**{OPTIONS[name]: value for name, value in config.items()})
    except ValueError as error:
        raise Refused(str(error)) from error


def _select(scores: Sequence[float | None], rules: selection.SelectionRules) -> list[int]:
    """By rank. Ids of equal length have the order of their numbers."""
    return [int(group) for group in selection.select([(f"{i:06d}", s) for i, s in enumerate(scores)], rules)]


def _groups(source: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    found: Sequence[Sequence[Any]] = source.get("data") or source["episodes"]
    return found


def _numbers(source: Mapping[str, Any]) -> list[list[float]]:
    """The number of each member, by group."""
    return [[NUMBER_OF_MEMBER[source["kind"]](member) for member in group] for group in _groups(source)]


def _group_scores(source: Mapping[str, Any], rules: selection.SelectionRules) -> list[float | None]:
    return [selection.score(_scores(source["kind"], members), rules.metric) for members in _numbers(source)]


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
    if source["kind"] == "scores" or source["config"].get("metric", DEVIATIONS[0]) not in DEVIATIONS:
        return False
    return all(len(g) == 1 for g in _groups(source)) and "error" not in case["expected"]


def _as_zeros(case: Case) -> Mapping[str, Any]:
    source = case["input"]
    return {"kept": selector(_with(case, data=[0.0] * len(_groups(source))))["kept"]}


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


DEPARTURES = [
    Departure("a group with a reward that is not finite is no candidate", _spoilt, _without_spoilt),
    Departure("the deviation of a group of one is 0, not NaN", _groups_of_one, _as_zeros),
    Departure("an unknown word is refused, used or not", _unknown_unused, refused),
    Departure("a response has one reward, however many turns it has", _turns_refused, _one_reward),
]

FAMILIES = {
    "ragen_filter": Family(
        whole_filter,
        kinds=frozenset(
            {"entropies", "lengths", "rewards", "token_rewards", "turn_entropies", "turn_lengths", "turn_rewards"}
        ),
        departures=DEPARTURES,
    ),
    "ragen_selector_scores": Family(selector, kinds=frozenset({"scores"})),
    "ragen_worked_examples": Family(worked_example, read=worked_examples, departures=DEPARTURES, tolerance=FLOAT32),
}
