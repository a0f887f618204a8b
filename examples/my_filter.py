"""A group filter of your own: a group that only talks long teaches little but length. Named in examples/custom.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from pipeline.sdk import Member, Opinion


class NotTooLong:
    """Rejects a group whose responses have more than `tokens` tokens on average (an option that must be given)."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._most = float(options["tokens"])

    def __call__(self, members: Sequence[Member]) -> Opinion:
        mean = fsum(member.response_tokens for member in members) / len(members)
        return Opinion(mean <= self._most, "too long on average", measured=mean, threshold=self._most)
