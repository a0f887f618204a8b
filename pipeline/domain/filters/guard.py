"""Guards: keep some of the groups that a filter would reject, so that a bad stretch can't starve a run.

A guard sees what the domain's filters keep, and what they reject and it may keep. A broken group is never kept, and
only roll_ratio counts it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.domain.rules import GuardRule
from pipeline.domain.vocabulary import Reason

KEEPABLE = (
    Reason.ZERO_STD,
    Reason.INSUFFICIENT_FINISHED_RESPONSES,
    Reason.STD,
    Reason.MEAN_LOW,
    Reason.MEAN_HIGH,
    Reason.BAND,
    Reason.DROP_FLAG,
    Reason.CUSTOM,
)
"""Rejections of groups that have what a trainer needs."""


@dataclass(slots=True)
class GuardState:
    """Groups that a guard has counted: in all, rejected ones that it might have kept, such since the last kept one; of
    the newest ones (at most a window) whether each was rejected, oldest first."""

    total: int = 0
    filtered: int = 0
    in_a_row: int = 0
    recent: deque[bool] = field(default_factory=deque)


Keeps = Callable[[GuardState], bool]
"""Whether to keep a group that a filter rejects, given what came before it."""


def roll_ratio(args: Mapping[str, Any]) -> Keeps:
    """Keeps when (filtered + 1) / total > max_ratio, where total counts every group, broken ones and this one too.
    ROLL's agentic guard: since it looks at the whole run, it keeps a first group that is bad, and lets a long good run
    be followed by as long a bad one."""
    most = float(args["max_ratio"])
    return lambda state: (state.filtered + 1) / (state.total + 1) > most


def window(args: Mapping[str, Any]) -> Keeps:
    """Keeps when, of the newest `window` groups with this one, more than max_ratio would be rejected, once there are
    `min_samples`; also after `keep_after` rejections in a row."""
    size, least, most = int(args["window"]), int(args["min_samples"]), float(args["max_ratio"])
    patient = consecutive(args) if args["keep_after"] is not None else None

    def keeps(state: GuardState) -> bool:
        full = len(state.recent) == size
        seen = size if full else len(state.recent) + 1
        filtered = state.recent.count(True) + 1 - (full and state.recent[0])
        return (seen >= least and filtered / seen > most) or (patient is not None and patient(state))

    return keeps


def consecutive(args: Mapping[str, Any]) -> Keeps:
    """Keeps the group after `keep_after` rejections in a row."""
    most = int(args["keep_after"])
    return lambda state: state.in_a_row >= most


GUARDS: dict[str, Callable[[Mapping[str, Any]], Keeps]] = {
    "roll_ratio": roll_ratio,
    "window": window,
    "consecutive": consecutive,
}
"""Guard types by name."""

COUNTS_BROKEN = ("roll_ratio",)
"""Guards whose total has every group that is judged, also one that no guard may keep."""


class Guard:
    """The guard of one domain. `home`: under which name its state is kept; domains whose guards have the scope `run`
    share one, whose name no domain has."""

    def __init__(self, rule: GuardRule, domain: str = "") -> None:
        self.home = "" if rule.args.get("scope") == "run" else domain
        self._keeps = GUARDS[rule.type](rule.args)
        self._counts_broken = rule.type in COUNTS_BROKEN
        self._window = int(rule.args.get("window", 0))

    def keeps(self, state: GuardState, reason: Reason | None) -> bool:
        """Whether the group is kept against the filter that rejects it; counts the group."""
        if reason is not None and reason not in KEEPABLE:
            state.total += self._counts_broken
            return False
        kept = reason is not None and self._keeps(state)
        rejected = reason is not None and not kept
        state.total += 1
        state.filtered += rejected
        state.in_a_row = state.in_a_row + 1 if rejected else 0
        if self._window:
            state.recent.append(rejected)
            if len(state.recent) > self._window:
                state.recent.popleft()
        return kept

    def told(self, state: GuardState) -> dict[str, float]:
        """The state as an event tells it, after the group was counted."""
        told = {
            "total": float(state.total),
            "filtered": float(state.filtered),
            "in_a_row": float(state.in_a_row),
        }
        if self._window:
            told["recent"] = float(len(state.recent))
            told["recent_filtered"] = float(state.recent.count(True))
        return told
