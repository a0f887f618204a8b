"""How groups fare: counts by name, who is open, how long they take. A part of the run's view."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pipeline.domain import events as e
from pipeline.domain.issuing import SOLVED
from pipeline.domain.rules import Rules
from pipeline.domain.topology import StageName
from pipeline.domain.vocabulary import Category, Purpose, Reason
from pipeline.history.domain_counts import DomainCounts
from pipeline.history.failures import Failures
from pipeline.history.lengths import Lengths
from pipeline.history.rows import Counts
from pipeline.history.series import Rate, Spread
from pipeline.history.shadows import ShadowTally
from pipeline.log.codec import Members, Poison

_MOST_WAITING: Final = 100_000


def count(into: dict[str, int], name: str, many: int = 1) -> None:
    """Add to a counter."""
    into[str(name)] = into.get(str(name), 0) + many


class Open(NamedTuple):
    """A group under way."""

    purpose: Purpose
    domain: str
    at_ms: int


@dataclass(slots=True)
class GroupCounts:
    """Dicts count by the vocabulary's names; `rejected` tells constant groups apart (`zero_std/all_zero`). Of training
    groups judged since `take_sampled_reward`, `_judged` have a mean reward, and `_rewards` is the sum of these."""

    opened: int = 0
    opened_eval: int = 0
    open_train: int = 0
    open_eval: int = 0
    replacements: int = 0
    assembled: int = 0
    accepted: int = 0
    kept_by_guard: int = 0
    evaluated: int = 0
    deselected: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    waived: dict[str, int] = field(default_factory=dict)
    skipped_prompts: dict[str, int] = field(default_factory=dict)
    assembly: Spread = field(default_factory=Spread)
    recent_assembly: Spread = field(default_factory=Spread)
    rate: Rate = field(default_factory=Rate)
    domains: dict[str, DomainCounts] = field(default_factory=dict)
    shadows: ShadowTally = field(default_factory=ShadowTally)
    lengths: Lengths = field(default_factory=Lengths)
    failures: Failures = field(default_factory=Failures)
    _members: Members = field(default_factory=Members)
    _judged: int = 0
    _rewards: float = 0.0
    _open: dict[str, Open] = field(default_factory=dict)
    _opened_ms: dict[str, int] = field(default_factory=dict)
    _assembled_ms: dict[str, int] = field(default_factory=dict)

    @property
    def totals(self) -> Counts:
        """The verdicts' running totals, as of now."""
        domains = {name: (d.accepted, d.judged) for name, d in self.domains.items()}
        return Counts(
            self.accepted, dict(self.rejected), self.kept_by_guard, dict(self.categories), self.lengths.totals, domains
        )

    @property
    def oldest_open_ms(self) -> int | None:
        """When the training group was opened that waits longest for its responses or its verdict."""
        return next((group.at_ms for group in self._open.values() if group.purpose is Purpose.TRAIN), None)

    def begin(self, rules: Rules) -> None:
        """Take the run's domains, each with the rejections that its filters know."""
        self.domains = {domain.name: DomainCounts.of(domain) for domain in rules.domains}

    def domain(self, name: str) -> DomainCounts:
        """The counts of a domain."""
        return self.domains.setdefault(name, DomainCounts())

    def take_sampled_reward(self) -> float | None:
        """The mean reward of the training groups judged since the last call, rejected ones included."""
        mean = self._rewards / self._judged if self._judged else None
        self._judged, self._rewards = 0, 0.0
        return mean

    def note(self, at_ms: int, event: e.Event) -> None:
        """Fold one ledger record."""
        match event:
            case e.GroupOpened():
                self._on_opened(at_ms, event)
            case e.GroupAccepted():
                self.accepted += 1
                self.kept_by_guard += event.kept_by_guard
                self.domain(event.prompt.domain).on_accepted(event)
                self._on_verdict(at_ms, event, accepted=True)
            case e.GroupRejected():
                self._on_rejected(at_ms, event)
            case e.GroupEvaluated():
                self.evaluated += 1
                self._close(at_ms, event.group_id)
            case e.GroupExpired():
                count(self.expired, event.reason)
                if event.purpose is Purpose.TRAIN:
                    count(self.domain(event.domain).expired, event.reason)
                self._opened_ms.pop(event.group_id, None)
                self._close(at_ms, event.group_id)
            case e.GroupDeselected():
                self.deselected += 1
                self.domain(event.domain).deselected += 1
            case e.ReplacementWaived():
                count(self.waived, event.reason)
                if event.domain:
                    count(self.domain(event.domain).waived, event.reason)
            case e.PromptSkipped():
                solved = event.detail.startswith(SOLVED)
                count(self.skipped_prompts, SOLVED if solved else event.reason)
            case _:
                return

    def on_assembled(self, at_ms: int, group_id: str) -> None:
        """A group is complete; its opening may be read earlier or later, since it stands on another topic."""
        self.assembled += 1
        opened = self._opened_ms.pop(group_id, None)
        if opened is None:
            _remember(self._assembled_ms, group_id, at_ms)
        else:
            self._took(group_id, at_ms - opened)

    def on_discarded(self, event: e.ResponseDiscarded) -> None:
        """A response won't be a member; those of an open evaluation say nothing of training."""
        group = self._open.get(event.group_id)
        if group is None or group.purpose is Purpose.TRAIN:
            self.lengths.on_discarded(event)
            self.failures.on_discarded(event)

    def _on_opened(self, at_ms: int, event: e.GroupOpened) -> None:
        evaluation = event.purpose is Purpose.EVAL
        self.opened += not evaluation
        self.opened_eval += evaluation
        self.open_train += not evaluation
        self.open_eval += evaluation
        self.replacements += event.replaces is not None
        self._open[event.group_id] = Open(event.purpose, event.prompt.domain, at_ms)
        if not evaluation:
            domain = self.domain(event.prompt.domain)
            domain.opened += 1
            domain.open += 1
            domain.replacements += event.replaces is not None
        assembled = self._assembled_ms.pop(event.group_id, None)
        if assembled is None:
            _remember(self._opened_ms, event.group_id, at_ms)
        else:
            self._took(event.group_id, assembled - at_ms)

    def _on_rejected(self, at_ms: int, event: e.GroupRejected) -> None:
        if event.group_id not in self._open and event.reason is Reason.UNDECODABLE:
            return  # a copy of a record couldn't be read; its group has ended already
        if event.category is Category.SYSTEM or event.filter == StageName.ASSEMBLER:
            self._opened_ms.pop(event.group_id, None)
        group = self._open.get(event.group_id)
        if group is None or group.purpose is not Purpose.EVAL:
            label = f"{event.reason}/{event.constant_class}" if event.constant_class else str(event.reason)
            count(self.rejected, label)
            count(self.categories, event.category)
            self.domain(group.domain if group else event.prompt.domain).on_rejected(event)
        self._on_verdict(at_ms, event, accepted=False)

    def _on_verdict(self, at_ms: int, event: e.GroupAccepted | e.GroupRejected, accepted: bool) -> None:
        if event.scores is not None and event.scores.reward_mean is not None:
            self._judged += 1
            self._rewards += event.scores.reward_mean
        if event.shadows:
            self.shadows.note(event.prompt.domain, event.shadows, accepted)
        group = self._open.get(event.group_id)
        if event.members and (group is None or group.purpose is Purpose.TRAIN):
            with suppress(Poison):
                members = self._members.decode(event.members)
                self.lengths.on_members(members)
                self.domain(event.prompt.domain).on_members(members)
                self.failures.on_members(members)
        self._close(at_ms, event.group_id)

    def _close(self, at_ms: int, group_id: str) -> None:
        group = self._open.pop(group_id, None)
        if group is None:
            return
        if group.purpose is Purpose.TRAIN:
            self.open_train -= 1
            self.domain(group.domain).open -= 1
        else:
            self.open_eval -= 1
        self.rate.add(at_ms)

    def _took(self, group_id: str, duration_ms: int) -> None:
        group = self._open.get(group_id)
        if group is not None and group.purpose is Purpose.TRAIN:
            self.domain(group.domain).assembly.add(duration_ms)
        self.assembly.add(duration_ms)
        self.recent_assembly.add(duration_ms)


def _remember(times: dict[str, int], group_id: str, at_ms: int) -> None:
    """Keep a time until its counterpart is read; the oldest is given up where that never comes."""
    times[group_id] = at_ms
    if len(times) > _MOST_WAITING:
        del times[next(iter(times))]
