"""Advantages: each variant's arguments as the product's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import fmean, stdev
from typing import Any

from pipeline.training.advantages import AdvantageConfig, advantages, positional_groups

from ..family import Case, Departure, Family, NotCompared, Refused
from .purpose import roughly

SCOPES = {"group": "group", "batch": "batch", None: "none"}
REJECTED = NotCompared("a group with a reward that is not finite is rejected before it has advantages")
LOOSE = ("tiny_spread", "constant_decimal")
"""Cases of which only the order of magnitude is compared, says their file."""


def answer(case: Case) -> Mapping[str, Any]:
    """One value for each response."""
    source = case["input"]
    try:
        values = _values(source, _config(source["variant"], source["args"]))
    except ValueError as error:
        raise Refused(str(error)) from error
    recorded = case["expected"].get("values", [])
    if any(name in case["name"] for name in LOOSE):
        values = roughly(values, recorded, 0.2, "digits of rounding noise")
    elif recorded and isinstance(recorded[0], list):
        values = _matrix(values, recorded, _groups(source))
    return {"values": values, "removed": [status == "truncated" for status in source.get("statuses", [])]}


def _values(source: Mapping[str, Any], config: AdvantageConfig) -> list[Any]:
    """Those of groups that reach the trainer. The turns of one episode are one response, and have its value."""
    rewards, groups = source["rewards"], _groups(source)
    cut = [status == "truncated" for status in source.get("statuses", ["completed"] * len(rewards))]
    counts = [not (config.exclude_truncated and out) for out in cut]
    zipped = list(zip(groups, rewards, counts, strict=True))
    rejected = [group for group, reward, counted in zipped if counted and not isfinite(reward)]
    episodes = source.get("episode_ids", range(len(rewards)))
    first = {episode: i for i, episode in reversed(list(enumerate(episodes))) if groups[i] not in rejected}
    rows = sorted(first.values())
    found = advantages([rewards[i] for i in rows], [groups[i] for i in rows], config, [cut[i] for i in rows])
    by_row = dict(zip(rows, found, strict=True))
    return [by_row[first[episode]] if episode in first else REJECTED for episode in episodes]


def _groups(source: Mapping[str, Any]) -> Sequence[Any]:
    args = source["args"]
    if args.get("grouping") == "batch":
        return ["the batch"] * len(source["rewards"])
    return source.get("groups") or positional_groups(len(source["rewards"]), args["n_sample"])


def _matrix(values: list[Any], recorded: list[Any], groups: Sequence[int]) -> list[Any]:
    """Where a matrix of groups by responses was recorded, a response's value stands in the row of its group."""
    theirs = NotCompared("a value in the row of another group")
    return [[v if groups[i] == row else theirs for i, v in enumerate(values)] for row in range(len(recorded))]


def _config(variant: str, args: Mapping[str, Any]) -> AdvantageConfig:
    match variant:
        case "roll_reward_norm":
            return AdvantageConfig(centre=SCOPES[args["norm_mean_type"]], scale=SCOPES[args["norm_std_type"]])
        case "roll_agentic_reward_norm":
            centre, scale = SCOPES[args["norm_mean_type"]], SCOPES[args["norm_std_type"]]
            return AdvantageConfig(centre=centre, scale=scale, min_std=1e-6)
        case "roll_group_reward_norm":
            scale = "residual" if args.get("div_std_global") else "group"
            return AdvantageConfig(scale=scale if args.get("div_std", True) else "none")
        case "open_instruct":
            kind = args.get("advantage_normalization_type", "centered")
            return AdvantageConfig({"standard": "grpo", "centered": "dr_grpo"}.get(kind, kind), eps=1e-8, ddof=0)
        case "ragen_grpo":
            return AdvantageConfig("grpo" if args.get("norm_by_std", True) else "dr_grpo")
        case "verl_rloo":
            return AdvantageConfig("leave_one_out")
    return _slime(variant, args)


def _slime(variant: str, args: Mapping[str, Any]) -> AdvantageConfig:
    """slime, miles and what is derived from them: by estimator."""
    estimator, cut = args.get("advantage_estimator", "grpo"), variant == "open_instruct_finished"
    divided = ("grpo", "gspo", "cispo") if variant.startswith("slime") else ("grpo", "gspo")
    if not args.get("rewards_normalization", True) or estimator not in (*divided, "reinforce_plus_plus_baseline"):
        return AdvantageConfig(centre="none", scale="none", exclude_truncated=cut)
    divides = estimator in divided and args.get("grpo_std_normalization", True)
    return AdvantageConfig("grpo" if divides else "dr_grpo", exclude_truncated=cut)


def _alone(source: Mapping[str, Any]) -> list[bool]:
    """Of each response, whether it is its group's only one."""
    try:
        groups = list(_groups(source))
    except ValueError:
        return []
    return [groups.count(group) == 1 for group in groups]


def _by_batch(case: Case) -> bool:
    """A response alone in its group, centred or scaled by the batch."""
    scopes = [case["input"]["args"].get(f"norm_{what}_type") for what in ("mean", "std")]
    return case["input"]["variant"] == "roll_agentic_reward_norm" and any(_alone(case["input"])) and "batch" in scopes


def _alone_by_batch(case: Case) -> Mapping[str, Any]:
    """The recorded values, and what the formula gives to the one alone."""
    source, rewards = case["input"], case["input"]["rewards"]
    mean = fmean(rewards) if source["args"]["norm_mean_type"] == "batch" else 0.0
    std = stdev(rewards) + 1e-6 if source["args"]["norm_std_type"] == "batch" else 1.0
    zipped = zip(rewards, case["expected"]["values"], _alone(source), strict=True)
    return {"values": [(reward - mean) / std if alone else value for reward, value, alone in zipped]}


def _has_value_alone(case: Case) -> bool:
    """A response alone in its group for which something else than 0 was recorded."""
    alone, recorded = _alone(case["input"]), case["expected"].get("values")
    if recorded is None:
        return all(alone) and bool(alone)
    return any(one and value != 0.0 for one, value in zip(alone, recorded, strict=False))


def _zero_alone(case: Case) -> Mapping[str, Any]:
    alone = _alone(case["input"])
    recorded = case["expected"].get("values", [0.0] * len(alone))
    return {"values": [0.0 if one else value for one, value in zip(alone, recorded, strict=True)]}


def _lumped(case: Case) -> bool:
    """slime takes all responses for one group when their number isn't that of a whole batch."""
    args, responses = case["input"]["args"], len(case["input"]["rewards"])
    whole = args.get("n_sample", 1) * args.get("rollout_batch_size", 1)
    return case["input"]["variant"] == "slime" and "groups" in case["input"] and responses != whole


def _by_label(case: Case) -> Mapping[str, Any]:
    groups, rewards = case["input"]["groups"], case["input"]["rewards"]
    of = {label: [r for r, g in zip(rewards, groups, strict=True) if g == label] for label in groups}
    return {"values": [(r - fmean(of[g])) / (stdev(of[g]) + 1e-6) for r, g in zip(rewards, groups, strict=True)]}


FAMILIES = {
    "advantages": Family(
        answer,
        kinds=frozenset(
            {
                "miles",
                "open_instruct",
                "open_instruct_finished",
                "ragen_grpo",
                "roll_agentic_reward_norm",
                "roll_group_reward_norm",
                "roll_reward_norm",
                "slime",
                "slime_by_group",
                "verl_rloo",
            }
        ),
        told_by="variant",
        departures=[
            Departure("groups are those of the labels, also where one is short", _lumped, _by_label),
            Departure("a group of one is centred and scaled by the batch if so configured", _by_batch, _alone_by_batch),
            Departure("a group of one has no contrast: 0", _has_value_alone, _zero_alone),
        ],
    )
}
