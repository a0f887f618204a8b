"""The checks that come before every other filter: is this a whole group of known policies and known, finite rewards?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter
from pipeline.domain.grouping import mean
from pipeline.domain.vocabulary import Failure, Reason

INTEGRITY = "integrity"
SOUND = Finding(INTEGRITY, None)
"""What is said of a group that is whole and graded."""
LARGEST = 1e38
"""The largest size of a reward that is trained on."""
_OF_FAILURE = {Failure.TIMEOUT: Reason.TIMEOUT, Failure.ENV_FAILED: Reason.ENV_FAILED, Failure.EMPTY: Reason.EMPTY}


def whole(members: Sequence[Member], group_size: int) -> Finding:
    """As many members as the group has slots, each in a slot of its own, and each of a policy version that is known. A
    member that failed has no response whose version could matter."""
    slots = {m.slot for m in members}
    if len(members) != group_size or len(slots) != group_size:
        return _broken(Reason.PROVENANCE, f"{len(members)} members in {len(slots)} slots, expected {group_size}")
    for member in members:
        if member.failure is None and member.oldest_version < 0:
            return _broken(Reason.PROVENANCE, f"slot {member.slot} has no policy version")
    return SOUND


def provenance(args: Mapping[str, Any]) -> GroupFilter:
    """With `one_version`: rejects members of more than one policy version, or of one that isn't known. A member that
    failed is excused: what it came to is the next check's to say."""
    if not args["one_version"]:
        return lambda members: Finding("provenance", None)

    def decide(members: Sequence[Member]) -> Finding:
        answers = [m for m in members if m.failure is None]
        versions = {v for m in answers for v in (m.oldest_version, m.newest_version)}
        if not answers or (len(versions) == 1 and min(versions) >= 0):
            return Finding("provenance", None)
        reason, detail = Reason.PROVENANCE, f"policy versions {sorted(versions)[:8]}, expected one"
        return Finding("provenance", reason, len(versions), 1, metric_name=f"drop_{reason}", detail=detail)

    return decide


def graded(members: Sequence[Member]) -> Finding:
    """aborted, missing or ungraded, non-finite; in this order."""
    for member in members:
        if member.failure is Failure.ABORTED:
            return _broken(Reason.ABORTED, f"slot {member.slot} was aborted")
    rewards = []
    for member in members:
        if member.reward is None:
            reason = _OF_FAILURE.get(member.failure, Reason.UNGRADED) if member.failure else Reason.UNGRADED
            return _broken(reason, f"slot {member.slot} has no reward")
        rewards.append(member.reward)
    if not isfinite(mean(rewards)):  # as it is if one of them isn't
        return _broken(Reason.NON_FINITE_REWARD, f"rewards {rewards[:8]}")
    return SOUND


def fits(members: Sequence[Member]) -> bool:
    """Whether a trainer can hold all rewards, and their differences, in float32."""
    rewards = [m.reward for m in members if m.reward is not None]
    return len(rewards) == len(members) and max(map(abs, rewards), default=0.0) <= LARGEST


def too_large(members: Sequence[Member]) -> Finding:
    """The rejection of a group that would be kept, and doesn't fit."""
    rewards = [m.reward for m in members]
    return _broken(Reason.NON_FINITE_REWARD, f"rewards {rewards[:8]}, of which one is above {LARGEST:g} in size")


def _broken(reason: Reason, detail: str) -> Finding:
    return Finding(INTEGRITY, reason, metric_name=f"drop_{reason}", detail=detail)
