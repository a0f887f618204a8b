"""Group-relative advantages, computed once per whole group on Python floats (docs: Shao et al. 2024, GRPO, sec. 4.1).

Sums are exact, so a group's advantages don't depend on the order or the layout of its members.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pipeline.domain.grouping import total

AdvantageKind = Literal["grpo", "dr_grpo", "leave_one_out"]
Centre = Literal["group", "batch", "none"]
Scale = Literal["group", "batch", "residual", "none"]


@dataclass(frozen=True, slots=True)
class AdvantageConfig:
    """Which advantage a member gets, r being its reward and n the number of members that count.

    grpo: (r - mean) / (std + eps), std with `ddof`; the division is skipped when n is 1 or std is 0.
    dr_grpo: r - mean (Liu et al. 2025). leave_one_out: r - mean of the others (Ahmadian et al. 2024); 0 when n is 1.
    exclude_truncated: members that hit the length limit don't count, and get 0.
    centre, scale: whose mean is taken off, and whose std grpo divides by (ROLL's norm_mean_type, norm_std_type);
    residual: that of the whole batch, each reward less its group's mean (ROLL's div_std_global).
    min_std: where grpo's std is not above it, all get 0 (ROLL's agentic pipelines: 1e-6); 0.0 switches that off.
    """

    kind: AdvantageKind = "grpo"
    eps: float = 1e-6
    exclude_truncated: bool = False
    ddof: int = 1
    centre: Centre = "group"
    scale: Scale = "group"
    min_std: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(AdvantageKind):
            raise ValueError(f"unknown advantage {self.kind!r}")
        if self.centre not in get_args(Centre) or self.scale not in get_args(Scale):
            raise ValueError(f"unknown centre {self.centre!r} or scale {self.scale!r}")
        if not (self.eps >= 0.0 and math.isfinite(self.eps)):
            raise ValueError(f"eps is {self.eps}: it must be finite and not negative")
        if self.ddof not in (0, 1):
            raise ValueError(f"ddof is {self.ddof}: it must be 0 or 1")


def group_advantages(
    rewards: Sequence[float], config: AdvantageConfig, truncated: Sequence[bool] | None = None
) -> list[float]:
    """One advantage for each member of one group, in order; see `advantages`."""
    return advantages(rewards, [0] * len(rewards), config, truncated)


def advantages(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    config: AdvantageConfig,
    truncated: Sequence[bool] | None = None,
) -> list[float]:
    """One advantage for each response, in order, `groups` saying which ones belong together.

    Raises ValueError when a reward that counts is not finite, or their mean or deviation isn't: a single one would
    spoil the whole group.
    """
    left_out = truncated if config.exclude_truncated and truncated is not None else [False] * len(rewards)
    members: dict[Hashable, list[int]] = {}
    for index, (group, out) in enumerate(zip(groups, left_out, strict=True)):
        if not out:
            members.setdefault(group, []).append(index)
    counted = {group: [rewards[i] for i in indices] for group, indices in members.items()}
    if not all(math.isfinite(r) for values in counted.values() for r in values):
        raise ValueError(f"rewards must be finite: {list(rewards)}")
    batch = _batch(counted.values(), config)
    values = [0.0] * len(rewards)
    for group, indices in members.items():
        for index, value in zip(indices, _of_group(counted[group], batch, config), strict=True):
            values[index] = value
    return values


def positional_groups(responses: int, group_size: int) -> list[int]:
    """The group of each response where groups stand one after the other. ValueError unless all are whole."""
    if group_size < 1 or responses % group_size:
        raise ValueError(f"{responses} responses are no groups of {group_size}")
    return [index // group_size for index in range(responses)]


def _batch(groups: Iterable[Sequence[float]], config: AdvantageConfig) -> tuple[float, float]:
    """Mean and std over all groups, as far as the configuration asks for them."""
    if config.centre != "batch" and config.scale not in ("batch", "residual"):
        return 0.0, 0.0
    mean, std = _moments([r for rewards in groups for r in rewards], config.ddof)
    if config.scale == "residual":
        means = [(rewards, _moments(rewards, config.ddof)[0]) for rewards in groups]
        std = _moments([r - own for rewards, own in means for r in rewards], config.ddof)[1]
    return mean, std


def _of_group(rewards: Sequence[float], batch: tuple[float, float], config: AdvantageConfig) -> list[float]:
    """The advantages of a group's members that count. `batch`: its mean and std."""
    (own_mean, own_std), n = _moments(rewards, config.ddof), len(rewards)
    mean = {"group": own_mean, "batch": batch[0], "none": 0.0}[config.centre]
    centred = [r - mean for r in rewards]
    if config.kind == "leave_one_out":
        return [c * n / max(n - 1, 1) for c in centred]
    if config.kind == "dr_grpo" or config.scale == "none":
        return centred
    std = own_std if config.scale == "group" else batch[1]
    if 0.0 < config.min_std >= std:
        return [0.0] * n
    return [c / (std + config.eps) for c in centred] if std > 0.0 else centred


def _moments(values: Sequence[float], ddof: int) -> tuple[float, float]:
    """Mean and std; exactly the value and 0 where all are the same. ValueError where one is not finite."""
    if not values or len(set(values)) == 1:
        return (values[0] if values else 0.0), 0.0
    mean = total(values) / len(values)
    variance = total([(v - mean) * (v - mean) for v in values]) / (len(values) - ddof)
    if not math.isfinite(variance):
        raise ValueError(f"rewards must have a finite mean and deviation: {list(values)}")
    return mean, math.sqrt(variance)
