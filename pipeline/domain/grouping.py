"""Numbers of a group, exact and independent of arrival order (docs/filters.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import fsum, isfinite, nan, sqrt

from pipeline.domain.events import Member, ResponseScored, Scores


def total(values: Sequence[float]) -> float:
    """The exact sum, rounded once; NaN for what is not finite."""
    try:
        found = fsum(values)
    except OverflowError:
        found = _wide_total(values)
    except ValueError:
        return nan
    return found if isfinite(found) else nan


def _wide_total(values: Iterable[float]) -> float:
    """The exact sum where fsum runs over on its way, which depends on the order although the sum doesn't."""
    exact = Fraction(0)
    try:
        for value in values:
            exact += Fraction(value)
        return float(exact)
    except (OverflowError, ValueError):
        return nan


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean by an exact sum; NaN if that is not finite or there is nothing to average."""
    return total(values) / len(values) if values else nan


def sample_std(values: Sequence[float], ddof: int = 1) -> float:
    """The standard deviation with `ddof`, by exact sums; 0.0 for up to `ddof` values and for equal ones, NaN for what
    is not finite."""
    n = len(values)
    if n <= ddof:
        return 0.0
    middle = mean(values)
    if not isfinite(middle) or min(values) == max(values):
        return middle - middle
    return sqrt(total([(v - middle) * (v - middle) for v in values]) / (n - ddof))


def scores_of(members: Iterable[Member]) -> Scores:
    """Every number that selection may rank a group by."""
    known = tuple(members)
    rewards = [m.reward for m in known if m.reward is not None]
    entropies = [m.entropy for m in known if m.entropy is not None]
    whole = bool(known) and len(rewards) == len(known) and all(map(isfinite, rewards))
    entropic = bool(known) and len(entropies) == len(known)
    return Scores(
        reward_mean=mean(rewards) if whole else None,
        reward_std=sample_std(rewards) if whole else None,
        reward_sum=total(rewards) if whole else None,
        length_mean=mean([float(m.response_tokens) for m in known]) if known else 0.0,
        entropy_mean=mean(entropies) if entropic else None,
        entropy_std=sample_std(entropies) if entropic else None,
    )


def member_of(scored: ResponseScored) -> Member:
    """What a group keeps of a scored response."""
    return Member(
        scored.slot,
        scored.round,
        scored.payload_key,
        scored.payload_bytes,
        scored.reward,
        scored.raw_score,
        scored.penalties,
        scored.components,
        scored.entropy,
        scored.grading,
        scored.failure,
        scored.finish_reason,
        scored.drop_flag,
        scored.env_timeout,
        scored.env_failed,
        scored.prompt_tokens,
        scored.response_tokens,
        scored.oldest_version,
        scored.newest_version,
        scored.generator,
    )


def payload_bytes(members: Iterable[Member]) -> int:
    """Bytes that the members' payloads take in Redis."""
    return sum([m.payload_bytes for m in members])


def largest_payload(members: Iterable[Member]) -> int:
    """The largest payload among the members, 0 if there is none."""
    return max([m.payload_bytes for m in members], default=0)


def version_range(members: Iterable[Member]) -> tuple[int, int]:
    """The oldest and the newest policy version that had a part in the members; -1 where no member names one."""
    known = [m for m in members if m.oldest_version >= 0]
    return min([m.oldest_version for m in known], default=-1), max([m.newest_version for m in known], default=-1)
