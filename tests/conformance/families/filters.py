"""Filters of single groups: ROLL's query filter, slime's, MILES' and open-instruct's filters of constant groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from sys import float_info
from typing import Any

from pydantic import ValidationError

from pipeline.config.filters import MeanFilter, StdFilter
from pipeline.domain.events import PromptRef, PromptSkipped, Scores
from pipeline.domain.filters.finding import Finding
from pipeline.domain.filters.guard import Guard, GuardState
from pipeline.domain.grouping import scores_of
from pipeline.domain.issuing import Issuer, pass_rate
from pipeline.domain.rules import GuardRule
from pipeline.domain.run_state import Run, Share
from pipeline.domain.vocabulary import Category, Reason, category_of
from tests.domain.given import Source, rules

from ..family import Case, Departure, Excluded, Family, Refused
from .groups import STATUSES, decide, finite, member
from .losses import SAMPLE_MASK_DEPARTURES, masks_of_difficulty, masks_of_samples

FILTERS = {"mean_filter": MeanFilter, "std_filter": StdFilter}
TOLERANCES = {"slime": 1e-6, "slime_fallback": 1e-6, "open_instruct_exact": 0.0}
"""Policies with another tolerance than the product's default, 1e-8."""
REASONS = {Reason.ABORTED: "group_has_aborted"}


def verdict(finding: Finding) -> dict[str, Any]:
    """A finding in the vectors' words. What is rejected as invalid is a refusal as well."""
    if finding.reason is None:
        return {"keep": True, "reason": None}
    words = REASONS.get(finding.reason, finding.metric_name.removeprefix("drop_"))
    broken = category_of(finding.reason) is Category.INVALID and finding.reason is not Reason.ABORTED
    return {"keep": False, "reason": words} | ({"refused": finding.reason.value} if broken else {})


def roll_rlvr_filter(case: Case) -> Mapping[str, Any]:
    """query_filter as a chain of one; the two masks are the trainer's."""
    asked = case["input"]
    if asked["kind"] == "difficulty_mask":
        return masks_of_difficulty(case)
    if asked["kind"] == "sample_mask":
        return masks_of_samples(case)
    who = [member(slot, reward) for slot, reward in enumerate(asked["rewards"])]
    type = asked["config"]["type"]
    return verdict(decide(who, *_configured(type, asked["config"].get("filter_args", {}))))


def _configured(type: str, given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The filter with ROLL's defaults. An infinite bound is none that a finite mean reaches."""
    if type not in FILTERS:
        return "no_filter", {}
    bounds = {name: max(min(float(value), float_info.max), -float_info.max) for name, value in given.items()}
    compat = {"compat": "roll"} if type == "mean_filter" else {}
    try:
        made = FILTERS[type].model_validate({"type": type, "metric": "reward", **compat, **bounds})
    except ValidationError as error:
        raise Refused(error.errors()[0]["msg"]) from error
    return type, made.model_dump(exclude={"type"})


def zero_std(case: Case) -> Mapping[str, Any]:
    """Each policy as the product's filter with that policy's tolerance."""
    asked = case["input"]
    policy, samples, args = asked["policy"], asked["samples"], asked["args"]
    key, unit = args.get("reward_key"), float(args.get("max_possible_score", 1.0))
    who = [_member(slot, sample, unit, policy) for slot, sample in enumerate(samples)]
    tol = TOLERANCES.get(policy, 1e-8)
    settings = {"tol": tol, "metric": key or "reward", "max_reward": 1.0}
    type = "finished_zero_std" if policy == "open_instruct_finished" else "zero_std"
    if policy == "miles_no_aborted" or args.get("filter_zero_std_samples") is False:
        type, settings = "no_filter", {}
    found = verdict(decide(who, type, settings))
    if policy == "slime_fallback":
        guard = Guard(GuardRule("consecutive", {"keep_after": max(args["remaining"] - args["target"], 0)}))
        reason = None if found["keep"] else Reason.ZERO_STD
        return found | {
            "filter_keep": found["keep"],
            "drop": reason is not None and not guard.keeps(GuardState(), reason),
        }
    if policy == "open_instruct_exact":
        scores = scores_of(who)
        found["percent_solved"] = pass_rate(scores)
        found["prompt_excluded_from_later_epochs"] = _left_out(scores, args.get("no_resampling_pass_rate"))
    return found


def _left_out(scores: Scores, least: float | None) -> bool:
    """Whether the product passes by the only prompt of a source in its next pass, after a group with these scores."""
    issuer = Issuer(replace(rules(), exclude_above_pass_rate=least), Source(1))
    state = Run({"maths": Share()}, [])
    first = issuer.at(PromptRef("", "maths", 0, 0))
    issuer.note_pass_rate(state, first.ref, scores)
    return any(isinstance(out.event, PromptSkipped) for out in issuer.draw(state, issuer.rules.domain("maths"), 0))


def _member(slot: int, sample: Mapping[str, Any], unit: float, policy: str) -> Any:
    """The product's rewards are shares of the best one, `unit`."""
    status = sample.get("status", "completed")
    known = {"truncated", "aborted"} if policy == "miles_no_aborted" else {"truncated"}
    more = STATUSES[status] if status in known else {}
    reward = sample["reward"]
    if isinstance(reward, Mapping):
        return member(slot, next(iter(reward.values())), components=dict(reward), **more)
    return member(slot, reward if reward is None else float(reward) / unit, **more)


def _rewards(case: Case) -> list[Any]:
    asked = case["input"]
    return asked.get("rewards") or [s["reward"] for s in asked.get("samples", [])]


def _not_finite(case: Case) -> bool:
    return not finite(_rewards(case)) and case["input"].get("kind", "query_filter") == "query_filter"


def _values(case: Case, looked_at: bool) -> list[float]:
    """The product's rewards; or the numbers that the policy's filter looks at. None of them, if a member has none."""
    asked = case["input"]
    key, unit = asked["args"].get("reward_key"), float(asked["args"].get("max_possible_score", 1.0))
    cut = "truncated" if looked_at and asked["policy"] == "open_instruct_finished" else ""
    rewards = [s["reward"] for s in asked["samples"] if s.get("status", "completed") != cut]
    values = [(r.get(key) if looked_at else next(iter(r.values()))) if isinstance(r, Mapping) else r for r in rewards]
    return [] if None in values else [float(value) / unit for value in values]


def _overflows(case: Case) -> bool:
    """Whether the sum of the rewards, or of their squared deviations where those are asked for, is no double."""
    values = [Fraction(v) for v in _values(case, True)] if _asks_for_spread(case) else []
    mean = sum(values) / max(len(values), 1)
    try:
        float(sum(map(Fraction, _values(case, False))))
        float(sum((v - mean) ** 2 for v in values))
    except OverflowError:
        return True
    return False


def _asks_for_spread(case: Case) -> bool:
    asked = case["input"]
    return asked["policy"] != "miles_no_aborted" and asked["args"].get("filter_zero_std_samples") is not False


def _labelled(case: Case) -> float | None:
    """The number in the recorded label, if there is one."""
    found = re.fullmatch(r"zero_std_(-?[0-9.e+-]+|-?inf|nan)", str(case["expected"].get("reason")))
    try:
        return float(found[1]) if found else None
    except ValueError:
        return None


def _label(case: Case) -> str | None:
    """The label of the recorded reason as a float, if it isn't written so."""
    number = _labelled(case)
    ours = None if number is None else f"zero_std_{number + 0.0}"
    return None if ours == case["expected"].get("reason") else ours


def _lowest(case: Case) -> str | None:
    """The label of the lowest reward, where the recorded one is that of the first and says another number."""
    number = _labelled(case)
    if number is None or not (values := _values(case, True)):
        return None
    first, lowest = (round(value, 1) + 0.0 for value in (values[0], min(values)))
    return f"zero_std_{lowest}" if number == first != lowest else None


ARGUMENTS = {"threshold_down", "threshold_up", "std_threshold"}
REFUSED = {"refused": True}
NOT_FINITE = Departure(
    "a reward that is not a finite number is rejected as non_finite_reward", _not_finite, lambda case: REFUSED
)

FAMILIES = {
    "roll_rlvr_filter": Family(
        roll_rlvr_filter,
        kinds=frozenset({"difficulty_mask", "query_filter", "sample_mask"}),
        excluded=[
            Excluded(
                "layout one_element: a group is its members, in whatever form they are passed",
                lambda case: case["input"].get("layout") == "one_element" and "upstream_quirk" in case,
            )
        ],
        departures=[
            NOT_FINITE,
            Departure(
                "a setting that the filter doesn't have is refused",
                lambda case: not set(case["input"]["config"].get("filter_args", {})) <= ARGUMENTS,
                lambda case: REFUSED,
            ),
            *SAMPLE_MASK_DEPARTURES,
        ],
    ),
    "zero_std": Family(
        zero_std,
        kinds=frozenset(
            {"miles", "miles_no_aborted", "open_instruct_exact", "open_instruct_finished", "slime", "slime_fallback"}
        ),
        told_by="policy",
        departures=[
            NOT_FINITE,
            Departure(
                "a group that lacks its members is rejected for that, whatever its filter",
                lambda case: _rewards(case) == [],
                lambda case: REFUSED,
            ),
            Departure(
                "rewards, or squares of their deviations, that overflow have no finite sum: non_finite_reward",
                _overflows,
                lambda case: REFUSED,
            ),
            Departure(
                "the label is that of the lowest reward, not of the first",
                lambda case: _lowest(case) is not None,
                lambda case: case["expected"] | {"reason": _lowest(case)},
            ),
            Departure(
                "the label is always a float, and -0.0 is 0.0",
                lambda case: _label(case) is not None,
                lambda case: case["expected"] | {"reason": _label(case)},
            ),
            Departure(
                "a constant group is constant, although its floating-point deviation is above 0",
                lambda case: (
                    case["input"]["policy"] == "open_instruct_exact"
                    and case["expected"].get("keep") is True
                    and case["input"]["args"].get("filter_zero_std_samples") is not False
                    and len(set(_rewards(case))) == 1
                ),
                lambda case: case["expected"] | {"keep": False},
            ),
        ],
    ),
}
