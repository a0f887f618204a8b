"""Where a new run can go on from an old one: each of its checkpoints, and the prompts that it had drawn by then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pipeline.domain import events as e
from pipeline.domain.training import Policy
from pipeline.domain.vocabulary import Purpose


@dataclass(frozen=True, slots=True)
class Position:
    """A checkpoint, the steps that it has in it, and by domain how many prompts had been drawn when it was written,
    those of all passes together and skipped ones included."""

    checkpoint: Policy
    step: int
    drawn: Mapping[str, int]


def positions(events: Iterable[e.Event], sizes: Mapping[str, int], drawn: Mapping[str, int]) -> Iterator[Position]:
    """The position of each checkpoint on a ledger, in its order. `sizes`: prompts in one pass of each domain, `drawn`:
    how many the run began with. Whatever the ledger says is taken as it is: it may contradict itself."""
    drawn = {domain: drawn.get(domain, 0) for domain in sizes}
    steps, trained = 0, set[int]()
    for event in events:
        match event:
            case e.GroupOpened(purpose=Purpose.TRAIN, prompt=at) | e.PromptSkipped(prompt=at) if at.domain in sizes:
                drawn[at.domain] = max(drawn[at.domain], at.epoch * sizes[at.domain] + at.ordinal + 1)
            case e.BatchTrained():
                steps += 1
                trained.add(event.batch)
            case e.BatchSkipped():
                steps += 1
            case e.BatchReturned():
                steps -= event.trained
                trained.discard(event.batch)
            case e.CheckpointSaved():
                ahead = len([batch for batch in event.batches if batch not in trained])  # written before BatchTrained
                yield Position(Policy(event.version, event.path, event.sha256), steps + ahead, dict(drawn))
            case _:
                pass


def newest(found: Iterable[Position], step: int | None) -> Position | None:
    """The last of them, or the last at or before a step; None if there is none."""
    chosen = None
    for position in found:
        if step is None or position.step <= step:
            chosen = position
    return chosen
