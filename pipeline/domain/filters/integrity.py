"""The checks that come before every configured filter: is this a whole group with known, finite rewards?"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding
from pipeline.domain.grouping import mean
from pipeline.domain.vocabulary import Failure, Reason

_OF_FAILURE = {Failure.TIMEOUT: Reason.TIMEOUT, Failure.ENV_FAILED: Reason.ENV_FAILED, Failure.EMPTY: Reason.EMPTY}


def integrity(members: Sequence[Member], group_size: int) -> Finding:
    """provenance, aborted, missing or ungraded, non-finite; in this order."""
    slots = {m.slot for m in members}
    if len(members) != group_size or len(slots) != group_size:
        return _broken(Reason.PROVENANCE, f"{len(members)} members in {len(slots)} slots, expected {group_size}")
    for member in members:
        if member.failure is Failure.ABORTED:
            return _broken(Reason.ABORTED, f"slot {member.slot} was aborted")
    for member in members:
        if member.reward is None:
            reason = _OF_FAILURE.get(member.failure, Reason.UNGRADED) if member.failure else Reason.UNGRADED
            return _broken(reason, f"slot {member.slot} has no reward")
    rewards = [m.reward for m in members if m.reward is not None]
    if not all(map(isfinite, rewards)) or not isfinite(mean(rewards)):
        return _broken(Reason.NON_FINITE_REWARD, f"rewards {rewards[:8]}")
    return Finding("integrity", None)


def _broken(reason: Reason, detail: str) -> Finding:
    return Finding("integrity", reason, metric_name=f"drop_{reason}", detail=detail)
