"""How many groups may be open: the lead over the trainer, measured acceptance, and the payload budget."""

from __future__ import annotations

from math import ceil

ACCEPTANCE_WEIGHT = 0.1
ACCEPTANCE_RANGE = (0.05, 1.0)
SIZE_MARGIN = 1.5


def updated_acceptance(acceptance: float, accepted: bool) -> float:
    """The measured acceptance after one more verdict: an exponential mean, never below 1 in 20."""
    low, high = ACCEPTANCE_RANGE
    return min(max(acceptance + ACCEPTANCE_WEIGHT * (accepted - acceptance), low), high)


def open_target(missing: int, acceptance: float, oversample_max: float) -> int:
    """Groups to have open when `missing` accepted ones are wanted: more where many are rejected."""
    return max(0, min(ceil(missing / acceptance), ceil(missing * oversample_max)))


def expected_payload(largest_seen: int, max_payload_bytes: int) -> int:
    """Bytes to reckon with for a payload that isn't there yet; until one was seen, the largest allowed."""
    if largest_seen == 0:
        return max_payload_bytes
    return min(ceil(SIZE_MARGIN * largest_seen), max_payload_bytes)


def seed_of(run_seed: int, n: int) -> int:
    """A group's seed in [0, 2^63): the run's seed and the group's number, mixed (Steele et al., SplitMix64)."""
    z = (run_seed * 0x9E3779B97F4A7C15 + n * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) >> 1
