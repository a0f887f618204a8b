"""Group-relative advantages, computed once per whole group on Python floats (docs: Shao et al. 2024, GRPO, sec. 4.1).

Sums are `math.fsum`, so a group's advantages don't depend on the order or the layout of its members.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

AdvantageKind = Literal["grpo", "dr_grpo", "leave_one_out"]


@dataclass(frozen=True, slots=True)
class AdvantageConfig:
    """Which advantage a member gets, r being its reward and n the number of members that count.

    grpo: (r - mean) / (std + eps), std with ddof 1; the division is skipped when n is 1 or std is 0.
    dr_grpo: r - mean (Liu et al. 2025). leave_one_out: r - mean of the others (Ahmadian et al. 2024); 0 when n is 1.
    exclude_truncated: members that hit the length limit don't count, and get 0.
    """

    kind: AdvantageKind = "grpo"
    eps: float = 1e-6
    exclude_truncated: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("grpo", "dr_grpo", "leave_one_out"):
            raise ValueError(f"unknown advantage {self.kind!r}")
        if not (self.eps >= 0.0 and math.isfinite(self.eps)):
            raise ValueError(f"eps is {self.eps}: it must be finite and not negative")


def group_advantages(
    rewards: Sequence[float], config: AdvantageConfig, truncated: Sequence[bool] | None = None
) -> list[float]:
    """One advantage for each member of one group, in order.

    Raises ValueError when a reward is not finite, since a single one would spoil the whole group.
    """
    if not all(map(math.isfinite, rewards)):
        raise ValueError(f"rewards must be finite: {list(rewards)}")
    if not config.exclude_truncated or truncated is None:
        return _centred(rewards, config)
    counted = iter(_centred([r for r, cut in zip(rewards, truncated, strict=True) if not cut], config))
    return [0.0 if cut else next(counted) for cut in truncated]


def _centred(rewards: Sequence[float], config: AdvantageConfig) -> list[float]:
    n = len(rewards)
    if n == 0 or len(set(rewards)) == 1:
        return [0.0] * n
    mean = math.fsum(rewards) / n
    centred = [r - mean for r in rewards]
    if config.kind == "dr_grpo":
        return centred
    if config.kind == "leave_one_out":
        return [c * n / (n - 1) for c in centred]
    std = math.sqrt(math.fsum(c * c for c in centred) / (n - 1))
    return [c / (std + config.eps) for c in centred] if std > 0.0 else centred
