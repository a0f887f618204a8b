"""Which start an episode has: all members of a group play the same one."""

from __future__ import annotations

import hashlib

from pipeline.domain.events import PromptIssued, ResponsesRequested
from pipeline.domain.rules import Rules
from pipeline.domain.vocabulary import Purpose


def start_seed(rules: Rules, event: PromptIssued | ResponsesRequested) -> int:
    """A start belongs to its prompt, in each pass another, so that the prompt issued again is the same task; with
    `replacement: new_seed` to the group. An evaluation plays the same starts whenever it comes."""
    prompt = event.prompt
    if event.purpose is Purpose.EVAL:
        return _hashed(f"{prompt.domain}/{prompt.id}")
    if rules.replacement == "new_seed":
        return event.seed
    return _hashed(f"{rules.seed}/{prompt.domain}/{prompt.epoch}/{prompt.ordinal}")


def _hashed(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1
