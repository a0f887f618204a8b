"""The pure stages over the events that they were given: what they answer, and the states that they end in, as hashes.

    python -m tests.golden.fold < inputs.json

It imports the domain and the standard library, so it runs on any Python, and says the same on each.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from pipeline.domain.assembly import Assembler
from pipeline.domain.batching import Batcher
from pipeline.domain.events import Member
from pipeline.domain.filters.stage import Filter
from pipeline.domain.reaping import DiscardReaper, Reaper
from pipeline.domain.rules import rules_of
from pipeline.domain.scheduling import Scheduler
from pipeline.history.audits.prompts import PromptsSeen
from tests.golden.plain import canonical, from_plain


class Table:
    """The members that the log holds, as the bytes that it holds."""

    def __init__(self, pairs: list[Any]) -> None:
        self._decoded = {encoded: members for encoded, members in map(from_plain, pairs)}
        self._encoded = {canonical(members): encoded for encoded, members in self._decoded.items()}

    def encode(self, members: tuple[Member, ...]) -> bytes:
        return self._encoded[canonical(members)]

    def decode(self, encoded: bytes) -> tuple[Member, ...]:
        return self._decoded[encoded]


def fold(inputs: dict[str, Any]) -> dict[str, list[str]]:
    """By stage and partition, the hash of all outputs and that of the last state."""
    rules, members, seen = rules_of(inputs["config"]), Table(inputs["members"]), PromptsSeen()
    for event in inputs["prompts"]:
        seen.note(from_plain(event))
    scheduler = Scheduler(rules, seen.training, seen.evaluation, tuple(seen.evaluation.sizes))
    stages: dict[str, Any] = {
        stage.name.value: stage
        for stage in (
            scheduler, Batcher(rules), Reaper(members), Assembler(rules, members), Filter(rules, members),
            DiscardReaper(),
        )
    }  # fmt: skip
    return {lane: _lane(stages, lane, events) for lane, events in inputs["lanes"].items()}


def _lane(stages: dict[str, Any], lane: str, events: list[Any]) -> list[str]:
    name, _, partition = lane.rpartition("/")
    stage, answers = stages[name], hashlib.sha256()
    state = stage.initial(int(partition))
    for event in events:
        for output in stage.step(state, from_plain(event)):
            answers.update(canonical(output).encode())
    return [answers.hexdigest(), hashlib.sha256(canonical(state).encode()).hexdigest()]


if __name__ == "__main__":
    json.dump(fold(json.load(sys.stdin)), sys.stdout)
