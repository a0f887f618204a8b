"""What other filters and guards would have said of a run's groups, by the code that the filter stage runs.

The ledger's verdicts hold the members that the filter saw, in the order in which it saw them: no other topic is needed
for that. Discards are read for what the groups cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.domain import events as e
from pipeline.domain.filters.custom import Customs
from pipeline.domain.filters.fields import looked_at
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import Rules
from pipeline.domain.topology import StageName, Topic
from pipeline.domain.vocabulary import Category, ConstantClass, Purpose, Reason
from pipeline.history.estimates import estimates
from pipeline.history.shadows import ShadowTally
from pipeline.log.codec import Members, Poison, decode, kind_of
from pipeline.log.reader import Record

TOPICS = (Topic.LEDGER, Topic.DISCARDS)
"""What is to be read, in this order."""
OPENED = e.GroupOpened.__name__
ACCEPTED, BY_GUARD = "accepted", "kept by guard"


@dataclass(slots=True)
class DomainTally:
    """One domain's training groups. `tokens` and `responses` are of everything that was sampled for them, whatever came
    of it; `unjudged` groups ended before the filter, by reason."""

    quota: int
    judged: int = 0
    accepted: int = 0
    would_accept: int = 0
    tokens: int = 0
    responses: int = 0
    unjudged: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Comparison:
    """`verdicts` counts groups by domain, recorded verdict, and that of the other filters. `changed_batch` is the first
    batch that was formed after a verdict that differs; `formed`: batches formed and not returned."""

    rules: Rules
    other: Rules
    domains: dict[str, DomainTally]
    verdicts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    shadows: ShadowTally = field(default_factory=ShadowTally)
    changed_batch: int | None = None
    formed: int = 0
    unreadable: int = 0

    @property
    def judged(self) -> int:
        """Groups that both judged."""
        return sum(self.verdicts.values())

    @property
    def agree(self) -> int:
        """Groups of which both said the same, for the same reason."""
        return sum(many for (_, was, would), many in self.verdicts.items() if was == would)

    def batches(self, would: bool) -> int:
        """Whole batches that the accepted groups make, at most as many as the run has steps."""
        each = [(d.would_accept if would else d.accepted) // d.quota for d in self.domains.values()]
        return min([*each, self.rules.steps])

    def estimates(self) -> list[str]:
        """Why acceptance, cost and batches are an estimate of a run with the other filters; none: they are exact."""
        accepted = sum(d.accepted for d in self.domains.values())
        would = sum(d.would_accept for d in self.domains.values())
        return list(estimates(self.rules, self.other, self.judged, accepted, would, self.changed_batch))


def what_if(records: Iterable[Record], rules: Rules, other: Rules, customs: Customs | None = None) -> Comparison:
    """Judge every recorded training group by the filters of `other`. The records are those of TOPICS, in that order."""
    fold = Fold(Comparison(rules, other, {d.name: DomainTally(d.quota) for d in rules.domains}), customs)
    for record in records:
        fold.note(record)
    return fold.found


class Fold:
    """One pass under way. `_open` has the openings of groups that have no ending yet, by key and as bytes: few of them
    are needed. `_groups` has the domain of each training group that ended."""

    def __init__(self, found: Comparison, customs: Customs | None) -> None:
        self.found = found
        self._members = Members(only=looked_at(found.other) | {"response_tokens"})
        self._filter = Filter(found.other, self._members, customs)
        self._state = self._filter.initial(0)
        self._groups: dict[str, str] = {}
        self._open: dict[bytes | None, bytes] = {}
        self._differs = False
        self._on: dict[type[e.Event], Callable[..., None]] = {
            e.GroupAccepted: self._accepted,
            e.GroupRejected: self._rejected,
            e.GroupExpired: self._ended_unjudged,
            e.BatchFormed: self._formed,
            e.BatchReturned: self._returned,
            e.ResponseDiscarded: self._discarded,
        }

    def note(self, record: Record) -> None:
        """Fold one record; others than those of TOPICS are ignored."""
        value = record.value
        if value is not None and kind_of(value) == OPENED:
            self._open[record.key] = value
            return
        try:
            event = decode(value)
            fold = self._on.get(type(event))
            if fold is not None:
                fold(event)
        except Poison:
            self.found.unreadable += 1

    def _accepted(self, event: e.GroupAccepted) -> None:
        if self._open.pop(event.group_id.encode(), None):
            self._judge(event, event.group_size, BY_GUARD if event.kept_by_guard else ACCEPTED, True)

    def _rejected(self, event: e.GroupRejected) -> None:
        if event.filter == StageName.ASSEMBLER or event.category is Category.SYSTEM:
            self._ended_unjudged(event)
        elif self._open.pop(event.group_id.encode(), None):
            self._judge(event, self.found.rules.group_size, _label(event.reason, event.constant_class), False)

    def _domain_of(self, group_id: str) -> str | None:
        """The domain of a training group; None: it was opened for an evaluation, or never."""
        if group_id not in self._groups:
            opened = self._open.get(group_id.encode())
            match decode(opened) if opened else None:
                case e.GroupOpened(purpose=Purpose.TRAIN, prompt=prompt):
                    self._groups[group_id] = prompt.domain
        return self._groups.get(group_id)

    def _judge(self, event: e.GroupAccepted | e.GroupRejected, size: int, was: str, accepted: bool) -> None:
        domain, members = event.prompt.domain, self._members.decode(event.members)
        self._groups[event.group_id] = domain
        tally = self._sampled(domain, members)
        ruling = self._filter.ruling(self._state, domain, members, size)
        finding = ruling.finding
        would = BY_GUARD if ruling.kept_by_guard else ACCEPTED
        if finding.reason is not None and not ruling.kept_by_guard:
            would = _label(finding.reason, finding.constant_class)
        would_accept = would in (ACCEPTED, BY_GUARD)
        tally.judged += 1
        tally.accepted += accepted
        tally.would_accept += would_accept
        self._differs = self._differs or accepted is not would_accept
        key = (domain, was, would)
        self.found.verdicts[key] = self.found.verdicts.get(key, 0) + 1
        if ruling.shadows:
            self.found.shadows.note(domain, ruling.shadows, would_accept)

    def _ended_unjudged(self, event: e.GroupRejected | e.GroupExpired) -> None:
        domain = self._domain_of(event.group_id)
        if domain is None or self._open.pop(event.group_id.encode(), None) is None:
            return
        tally = self._sampled(domain, self._members.decode(event.members) if event.members else ())
        reason = str(event.reason)
        tally.unjudged[reason] = tally.unjudged.get(reason, 0) + 1

    def _sampled(self, domain: str, members: Sequence[e.Member]) -> DomainTally:
        tally = self.found.domains[domain]
        tally.responses += len(members)
        tally.tokens += sum([m.response_tokens for m in members])
        return tally

    def _discarded(self, event: e.ResponseDiscarded) -> None:
        domain = self._domain_of(event.group_id)
        if domain is not None:
            self.found.domains[domain].responses += 1
            self.found.domains[domain].tokens += event.response_tokens

    def _formed(self, event: e.BatchFormed) -> None:
        self.found.formed += 1
        if self._differs and self.found.changed_batch is None:
            self.found.changed_batch = event.batch

    def _returned(self, event: e.BatchReturned) -> None:
        self.found.formed -= 1


def _label(reason: Reason, kind: ConstantClass | None) -> str:
    return f"{reason}/{kind}" if kind else str(reason)
