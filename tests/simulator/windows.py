"""What must hold of a run with a selection: what windows keep and leave out, and what batches say of it."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain import events as e
from pipeline.domain.rules import SelectionSettings
from pipeline.domain.selection import loss_scale, score, select, soft_weights

from .world import World


def selection_problems(world: World, ledger: list[e.Event]) -> Iterator[str]:
    settings = world.rules.selection
    if settings is None:
        return
    scores = {event.group_id: event.scores for event in ledger if isinstance(event, e.GroupAccepted)}
    yield from _scored(settings, ledger, scores)
    yield from _weighed(settings, ledger, scores)
    if not settings.refill:
        yield from _one_window_a_step(settings, ledger, scores)
    yield from _answered(world, settings, ledger)


def _scored(settings: SelectionSettings, ledger: list[e.Event], scores: dict[str, e.Scores]) -> Iterator[str]:
    """A deselected group says the score that it was ranked by, and its window, which has no more than its size."""
    assert settings.ranked is not None
    of: dict[int, int] = {}
    for event in ledger:
        if isinstance(event, e.GroupDeselected):
            of[event.window] = of.get(event.window, 0) + 1
            if event.score != score(scores[event.group_id], settings.ranked.metric):
                yield f"group {event.group_id} is deselected with score {event.score}"
    for window, many in of.items():
        if many > settings.window:
            yield f"window {window} leaves out {many} groups, it has {settings.window}"


def _weighed(settings: SelectionSettings, ledger: list[e.Event], scores: dict[str, e.Scores]) -> Iterator[str]:
    for event in ledger:
        if isinstance(event, e.BatchFormed):
            stds = [scores[g.group_id].reward_std or 0.0 for g in event.groups]
            expected = soft_weights(stds) if settings.soft_weights else [1.0] * len(stds)
            if [g.weight for g in event.groups] != expected:
                yield f"batch {event.batch} has weights {[g.weight for g in event.groups]}, expected {expected}"
            lowest = loss_scale(settings.loss_rescale, 1.0 / settings.window)
            if not lowest <= event.loss_scale <= 1.0:
                yield f"batch {event.batch} scales its loss by {event.loss_scale}"


def _one_window_a_step(
    settings: SelectionSettings, ledger: list[e.Event], scores: dict[str, e.Scores]
) -> Iterator[str]:
    """Without refill: a batch is what its window kept, which is what selecting from the whole keeps."""
    assert settings.ranked is not None
    left_out: list[str] = []
    for event in ledger:
        match event:
            case e.GroupDeselected():
                left_out.append(event.group_id)
            case e.BatchSkipped():
                left_out.clear()
            case e.BatchFormed():
                kept = [g.group_id for g in event.groups]
                if event.candidates == len(kept) + len(left_out) and event.candidates > 0:
                    whole = [(g, score(scores[g], settings.ranked.metric)) for g in (*kept, *left_out)]
                    if sorted(select(whole, settings.ranked)) != sorted(kept):
                        yield f"batch {event.batch} has {kept}, left out are {left_out}"
                    if event.loss_scale != loss_scale(settings.loss_rescale, len(kept) / event.candidates):
                        yield f"batch {event.batch} of {event.candidates} scales its loss by {event.loss_scale}"
                elif left_out:
                    yield f"batch {event.batch} has {event.candidates} candidates: {kept}, and {left_out} left out"
                left_out.clear()
            case _:
                continue


def _answered(world: World, settings: SelectionSettings, ledger: list[e.Event]) -> Iterator[str]:
    """A deselected group is answered by the scheduler: without refill never by another prompt."""
    gone = {event.group_id for event in ledger if isinstance(event, e.GroupDeselected)}
    for event in ledger:
        if isinstance(event, e.GroupOpened) and event.replaces in gone and not settings.refill:
            yield f"group {event.group_id} replaces {event.replaces}, which was deselected without refill"
