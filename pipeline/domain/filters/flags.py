"""drop_flag: a group with a trajectory that its environment broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter
from pipeline.domain.vocabulary import Grading, Reason


def drop_flag(args: Mapping[str, Any]) -> GroupFilter:
    """Rejects when a member has drop_flag, env_timeout or env_failed, or failed. After ROLL's agentic GroupFilter."""
    return _decide


def _decide(members: Sequence[Member]) -> Finding:
    flagged = [m.slot for m in members if is_flagged(m)]
    measurements = {"flagged": float(len(flagged))}
    if not flagged:
        return Finding("drop_flag", None, 0.0, 0.0, measurements=measurements)
    reason = Reason.DROP_FLAG
    return Finding("drop_flag", reason, measurements["flagged"], 0.0, metric_name=f"drop_{reason}",
                   detail=f"slots {flagged[:8]}", measurements=measurements)  # fmt: skip


def is_flagged(member: Member) -> bool:
    """Whether this trajectory can't be learned from."""
    return member.drop_flag or member.env_timeout or member.env_failed or member.grading is Grading.FAILED
