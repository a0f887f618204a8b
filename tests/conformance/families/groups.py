"""Groups in the vectors' words, as the product's members; and what the product's chain says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from pipeline.domain.events import Member
from pipeline.domain.filters.chain import Chain
from pipeline.domain.filters.finding import Finding
from pipeline.domain.rules import DomainRules, FilterRule
from pipeline.domain.vocabulary import Failure, FinishReason, Grading

STATUSES: dict[str, dict[str, Any]] = {
    "truncated": {"finish_reason": FinishReason.LENGTH},
    "aborted": {"failure": Failure.ABORTED, "grading": Grading.FAILED},
}
"""What a status says of a member, besides its reward."""


def member(slot: int, reward: float | None, versions: Sequence[int] = (0,), **more: Any) -> Member:
    """A member of which only these things matter."""
    fields: dict[str, Any] = {
        "components": {},
        "grading": Grading.UNGRADED if reward is None else Grading.GRADED,
        "failure": None,
        "finish_reason": FinishReason.STOP,
        "drop_flag": False,
    } | more
    return Member(
        slot=slot, round=1, payload_key=None, payload_bytes=0, reward=reward, raw_score=reward, penalties=0.0,
        entropy=None, env_timeout=False, env_failed=False, prompt_tokens=0, response_tokens=0,
        oldest_version=min(versions, default=-1), newest_version=max(versions, default=-1), generator="", **fields,
    )  # fmt: skip


def decide(members: Sequence[Member], type: str, args: Mapping[str, Any], size: int | None = None) -> Finding:
    """What a chain of one filter says. A group of none is one that lacks its members."""
    rules = DomainRules("d", 1, (FilterRule(type, args),), "")
    return Chain(rules).decide(members, max(len(members), 1) if size is None else size)


def finite(rewards: Sequence[Any]) -> bool:
    """Whether all numbers among them are."""
    return all(isfinite(r) for r in rewards if isinstance(r, int | float))
