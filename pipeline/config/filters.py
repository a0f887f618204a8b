"""The group filters that a configuration can name; a domain has one chain of them."""

from __future__ import annotations

from math import inf
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipeline.config.values import Many, Metric, Plugin, Section


class GroupFilter(Section):
    """Base of the group filters. A new one is a class here and its name in `Filter`."""

    needs_spread: ClassVar[bool] = False
    """Whether it measures how rewards differ, which a group of one can't show."""

    def kept_means(self) -> tuple[float, float, bool]:
        """The means that it may keep: from, to, and whether these two are among them."""
        return -inf, inf, True

    def never_rejects(self) -> str | None:
        """Why it could reject no group, if that is so and hardly meant, and what to write."""
        return None

    def hardly_rejects(self) -> str | None:
        """Which groups alone it rejects, if most rewards have none of them, and what to write."""
        return None


class NoFilter(GroupFilter):
    """Rejects nothing."""

    type: Literal["no_filter"]


class Provenance(GroupFilter):
    """With `one_version`, rejects a group whose members are of more than one policy version."""

    type: Literal["provenance"]
    one_version: bool = False

    def never_rejects(self) -> str | None:
        told = "without one_version it asks only what is asked of every group; write one_version: true"
        return None if self.one_version else told


class DropFlag(GroupFilter):
    """Rejects a group with a member that has drop_flag, env_timeout or env_failed, or failed."""

    type: Literal["drop_flag"]


class ZeroStd(GroupFilter):
    """Rejects a group whose sample standard deviation is not above `tol`. `metric` defaults to the run's; a constant
    group is called `all_max` when its value is `max_reward`."""

    needs_spread = True

    type: Literal["zero_std"]
    tol: float = Field(1e-8, ge=0)
    metric: Metric | None = None
    max_reward: float = 1.0


class FinishedZeroStd(GroupFilter):
    """zero_std over the members that didn't hit their length limit, of which there must be two."""

    needs_spread = True

    type: Literal["finished_zero_std"]
    tol: float = Field(1e-8, ge=0)
    metric: Metric | None = None
    max_reward: float = 1.0


class StdFilter(GroupFilter):
    """Rejects a group whose standard deviation, with `ddof`, is at most `std_threshold`."""

    needs_spread = True

    type: Literal["std_filter"]
    std_threshold: float = -1.0
    ddof: Literal[0, 1] = 1
    metric: Metric | None = None

    def never_rejects(self) -> str | None:
        told = f"std_threshold {self.std_threshold:g} is below any deviation; write one such as 0.01"
        return told if self.std_threshold < 0 else None


class MeanFilter(GroupFilter):
    """Rejects a group whose mean is at most `threshold_down`, or at least `threshold_up`; no bound where none is given.
    `compat: roll` has its default for `threshold_down`, -1, and keeps groups of one."""

    type: Literal["mean_filter"]
    compat: Literal["roll"] | None = None
    threshold_down: float | None = Field(default_factory=lambda data: -1.0 if data.get("compat") == "roll" else None)
    threshold_up: float | None = None
    metric: Metric | None = None

    def kept_means(self) -> tuple[float, float, bool]:
        low, high = self.threshold_down, self.threshold_up
        return -inf if low is None else low, inf if high is None else high, False

    def never_rejects(self) -> str | None:
        unbounded = self.threshold_down is None and self.threshold_up is None
        return "it has no threshold; write threshold_down or threshold_up" if unbounded else None

    def hardly_rejects(self) -> str | None:
        by_default = self.compat == "roll" and self.threshold_down == -1.0 and self.threshold_up is None
        told = "a mean is -1 or less, which is ROLL's default; write threshold_down or threshold_up"
        return told if by_default else None


class Band(GroupFilter):
    """Rejects a group whose mean is outside [low, high]."""

    type: Literal["band"]
    low: float
    high: float
    metric: Metric | None = None

    def kept_means(self) -> tuple[float, float, bool]:
        return self.low, self.high, True


class CustomFilter(Plugin, GroupFilter):
    """Rejects what a callable of the user's own says. `on_error`: what an exception in it decides."""

    type: Literal["custom"]
    on_error: Literal["reject", "keep", "raise"] = "reject"


Filter = Annotated[
    NoFilter | Provenance | DropFlag | ZeroStd | FinishedZeroStd | StdFilter | MeanFilter | Band | CustomFilter,
    Field(discriminator="type"),
]
Chain = Annotated[Many[Filter], Field(min_length=1)]
Shadows = Many[Filter]
