"""Advantages: each variant's arguments as the product's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from pipeline.training.advantages import AdvantageConfig, advantages, positional_groups

from ..family import Case, Family, NotCompared, Refused
from .purpose import departure, roughly

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


FAMILIES = {
    "advantages": Family(
        answer,
        departures=[
            departure("a group of one has no contrast: 0", ["slime_single_member_groups"], {"values": [0.0, 0.0]}),
            departure(
                "a group of one has no contrast: 0", ["roll_group_reward_norm_n_sample_1"], {"values": [0.0] * 8}
            ),
            departure(
                "a group of one has no contrast: 0", ["ragen_grpo_single_member"], {"values": [0.0, 0.70711, -0.70711]}
            ),
            departure("a group of one has no contrast: 0", ["verl_rloo_single_member"], {"values": [0.0, 1.0, -1.0]}),
            departure(
                "groups are those of the labels, also where one is short",
                ["slime_incomplete_batch"],
                {"values": [0.866024, -0.866024, -0.866024, 0.866024, 0.0, 0.0, 0.0]},
            ),
            departure(
                "a group of one is centred and scaled by the batch if so configured",
                ["roll_agentic_reward_norm_single_member_batch_std"],
                {"values": [1.154699, -0.577349, -0.577349]},
            ),
        ],
    )
}
