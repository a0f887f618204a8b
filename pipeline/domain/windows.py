"""Windows of accepted groups: what is selected from each, what it does to the loss, and when selecting has no point."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from pipeline.domain import events as e
from pipeline.domain import starvation
from pipeline.domain.grouping import mean
from pipeline.domain.rules import FilterRule, Rules, SelectionSettings
from pipeline.domain.run_state import Share
from pipeline.domain.selection import (
    SelectionRules,
    SpreadWatch,
    empty_stop,
    loss_scale,
    score,
    select,
    soft_weights,
    updated_empties,
)
from pipeline.domain.selection.custom import Candidate, Choice, Selectors, choose
from pipeline.domain.topology import MembersCodec, Output, StageName, Topic
from pipeline.domain.vocabulary import ShortReason, StarvationCause


@dataclass(slots=True)
class Origin:
    """What a kept group's window was: its number, how many groups it kept, and of how many; the group's own weight."""

    window: int
    kept: int
    of: int
    weight: float


@dataclass(slots=True)
class Windows:
    """Accepted groups that wait for their window, oldest first; the scores of all live groups and the origins of those
    kept, by id; and what tells when to stop. `tally` counts endings since the last batch."""

    standing: list[e.BatchGroup] = field(default_factory=list)
    next_window: int = 1
    scores: dict[str, e.Scores] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    empties: int = 0
    spread: SpreadWatch = field(default_factory=SpreadWatch)
    tally: Share = field(default_factory=Share)

    def stand(self, group: e.BatchGroup, scores: e.Scores) -> None:
        """An accepted group waits for its window."""
        self.standing.append(group)
        self.scores[group.group_id] = scores
        starvation.note_accepted(self.tally)

    def forget(self, group_id: str) -> None:
        """The group has ended."""
        self.scores.pop(group_id, None)
        self.origins.pop(group_id, None)


@dataclass(frozen=True, slots=True)
class Spent:
    """The groups that a window kept, in the order of acceptance; why selecting should stop, if it should; and whether
    the user's own code failed in a way that ends the run."""

    kept: list[e.BatchGroup]
    cause: StarvationCause | None
    ends_run: bool


Chooser = Callable[[Windows, Sequence[e.BatchGroup]], Choice]


class Selecting:
    """How a run selects. `members` and `selectors` are needed for the user's own code only."""

    def __init__(
        self, rules: Rules, settings: SelectionSettings, members: MembersCodec | None, selectors: Selectors | None
    ) -> None:
        self.settings = settings
        self._empty_stop_steps = rules.empty_stop_steps
        self._choose = _ranking(settings.ranked) if settings.ranked else _asking(settings.custom, members, selectors)

    def spend(self, windows: Windows, size: int, at: int) -> Generator[Output, None, Spent]:
        """Select from the oldest `size` groups that stand; each of them is then kept or deselected."""
        window, number = windows.standing[:size], windows.next_window
        del windows.standing[:size]
        windows.next_window += 1
        choice = self._choose(windows, window)
        for group in window:
            if group.group_id not in choice.weights:
                yield Output(Topic.LEDGER, 0, self._deselected(windows, group, number, at))
        if choice.ends_run:
            yield Output(Topic.LEDGER, 0, e.StageFailed(StageName.BATCHER.value, None, choice.failed or "", at))
        kept = [group for group in window if group.group_id in choice.weights]
        cause = self._stop(windows, window, len(kept))
        for group in window:
            weight = choice.weights.get(group.group_id)
            if weight is None:
                windows.forget(group.group_id)
            else:
                windows.origins[group.group_id] = Origin(number, len(kept), len(window), weight)
        return Spent(kept, cause, choice.ends_run)

    def _deselected(self, windows: Windows, group: e.BatchGroup, number: int, at: int) -> e.GroupDeselected:
        ranked, scores = self.settings.ranked, windows.scores[group.group_id]
        measured = score(scores, ranked.metric) if ranked is not None else None
        return e.GroupDeselected(
            group.group_id, group.domain, group.members, group.payload_bytes, number, measured, at
        )  # fmt: skip

    def _stop(self, windows: Windows, window: Sequence[e.BatchGroup], kept: int) -> StarvationCause | None:
        windows.empties = updated_empties(windows.empties, kept)
        if empty_stop(windows.empties, self._empty_stop_steps):
            windows.empties = 0
            return StarvationCause.EMPTY_SELECTIONS
        if kept and self.settings.variance_stop:
            stds = [windows.scores[g.group_id].reward_std for g in window]
            if windows.spread.collapsed(mean([std for std in stds if std is not None])):
                return StarvationCause.REWARD_VARIANCE_COLLAPSE
        return None

    def shortness(self, windows: Windows, groups: Sequence[e.BatchGroup]) -> ShortReason:
        """Why a batch has no more groups than these: others of their windows are gone, or none were kept."""
        kept = sum([o.kept for o in _distinct([windows.origins[g.group_id] for g in groups])])
        return ShortReason.PAYLOADS_LOST if len(groups) < kept else ShortReason.SELECTION

    def batch(self, windows: Windows, groups: Sequence[e.BatchGroup]) -> tuple[tuple[e.BatchGroup, ...], int, float]:
        """The groups of a batch with their weights, how many stood in their windows, and the scale of the loss."""
        origins = [windows.origins[g.group_id] for g in groups]
        candidates = sum([o.of for o in _distinct(origins)])
        kept = sum([o.kept for o in _distinct(origins)])
        scale = loss_scale(self.settings.loss_rescale, kept / candidates)
        weights = [o.weight for o in origins]
        if self.settings.soft_weights:
            weights = soft_weights([_finite(windows.scores[g.group_id].reward_std) for g in groups])
        weighed = [replace(g, weight=w) for g, w in zip(groups, weights, strict=True)]
        return tuple(weighed), candidates, scale


def _distinct(origins: Sequence[Origin]) -> list[Origin]:
    """One of each window."""
    return list({origin.window: origin for origin in origins}.values())


def _ranking(rules: SelectionRules) -> Chooser:
    def chosen(windows: Windows, window: Sequence[e.BatchGroup]) -> Choice:
        scored = [(g.group_id, score(windows.scores[g.group_id], rules.metric)) for g in window]
        return Choice(dict.fromkeys(select(scored, rules), 1.0))

    return chosen


def _asking(rule: FilterRule | None, members: MembersCodec | None, selectors: Selectors | None) -> Chooser:
    if rule is None or members is None or selectors is None:
        raise ValueError("a selection by the user's own code needs its callable, which nobody built")
    selector = selectors(rule)

    def chosen(windows: Windows, window: Sequence[e.BatchGroup]) -> Choice:
        candidates = [Candidate(g.group_id, members.decode(g.members), windows.scores[g.group_id]) for g in window]
        return choose(rule, selector, candidates)

    return chosen


def _finite(std: float | None) -> float:
    """A deviation beyond all numbers counts as none: such a group would drown the others."""
    return std if std is not None and isfinite(std) else 0.0
