"""Whether a run keeps its invariants I1 to I7 (docs/architecture.md), asked of its log alone, live or archived.

What is missing at the end of a live run's log is pending; in a drained run it is a violation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from pipeline.domain import events as e
from pipeline.domain.lifecycle import Ledger
from pipeline.domain.rules import DECISION_VERSIONS, Rules, rules_of
from pipeline.domain.topology import MembersCodec, Topic, partitions
from pipeline.history.audits.answers import Answers
from pipeline.history.audits.keys import Endings, audit_keys
from pipeline.history.audits.prompts import PromptsSeen
from pipeline.history.audits.replay import Sources, replay, stages
from pipeline.history.records import KafkaLog, RunLog
from pipeline.log.client import Connection
from pipeline.log.codec import Members, Poison, UnknownSchema
from pipeline.log.reader import Record
from pipeline.log.start import read_run_started

MOST_LISTED: Final = 100
DECODED: Final = (Topic.LEDGER, Topic.PROMPTS, Topic.DROPS)


class Store(Protocol):
    """The part of the payload store that is asked."""

    def count_keys(self, partition: int | None = None) -> int: ...


@dataclass(slots=True)
class Audit:
    """`violations` begin with the invariant's name (`cause` for a cause that is not unique). `pending` is what a live
    run still owes. `checked` counts what was looked at. Lists are cut after MOST_LISTED, the rest a number."""

    violations: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    drained: bool = False
    replay_s: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations


def audit_run(connection: Connection, store: Store | None = None, sources: Sources | None = None) -> Audit:
    """Audit a run in Kafka. Raises Stop if it doesn't exist, Unreachable if no broker answers."""
    return audit(KafkaLog(connection), read_run_started(connection), Members(), store, sources)


def audit(
    log: RunLog,
    started: e.RunStarted,
    members: MembersCodec,
    store: Store | None = None,
    sources: Sources | None = None,
) -> Audit:
    """Read every topic and check every invariant. Without `store`, keys left in Redis aren't asked for; without
    `sources`, the scheduler is replayed with the prompts that were recorded."""
    auditor = Auditor(log, rules_of(started.config), members)
    auditor.scan()
    auditor.ledger_debts()
    auditor.keys(store)
    auditor.replay(started, sources)
    for sentences in (auditor.result.violations, auditor.result.pending):
        if len(sentences) > MOST_LISTED:
            sentences[MOST_LISTED:] = [f"and {len(sentences) - MOST_LISTED} more"]
    return auditor.result


class Auditor:
    """One audit under way."""

    def __init__(self, log: RunLog, rules: Rules, members: MembersCodec) -> None:
        self.log, self.rules, self.members = log, rules, members
        self.result = Audit()
        self.ledger = Ledger(rules, members)
        self.endings = Endings()
        self.prompts = PromptsSeen()
        self.answers = Answers(log.settled_before_ms)
        self.copies = 0

    def scan(self) -> None:
        """Every record once: causes, the ledger's invariants, the prompts, the copies of RunFinished. The ledger comes
        last: so all that it caused before is seen, and what it caused since is not missed."""
        for topic in sorted(Topic, key=lambda topic: topic is Topic.LEDGER):
            if topic is not Topic.SNAPSHOTS:
                self.result.checked[f"{topic} records"] = sum(self._scanned(record) for record in self.log.read(topic))
        self.result.checked["causes"] = self.answers.causes
        self.result.violations += self.ledger.violations
        self.result.drained = self.copies == self.rules.partitions + 1
        if self.copies > self.rules.partitions + 1:
            self.result.violations.append(
                f"I4 drops has {self.copies} RunFinished, expected {self.rules.partitions + 1}"
            )

    def _scanned(self, record: Record) -> int:
        problem = self.answers.note(record)
        try:
            if record.topic in DECODED or problem:
                self._note(record, record.event())
            if problem:
                self.result.violations.append(problem)
        except (Poison, UnknownSchema) as error:
            self._count("unreadable", 1)
            if record.topic is Topic.LEDGER:
                self.result.violations.append(f"I1 ledger/0/{record.offset} can't be read: {error}")
        except KeyError as error:
            self.result.violations.append(f"I1 ledger/0/{record.offset} names {error}, which the run doesn't have")
        return 1

    def _note(self, record: Record, event: e.Event) -> None:
        if record.topic is Topic.DROPS:
            self.copies += isinstance(event, e.RunFinished)
        if record.topic in (Topic.LEDGER, Topic.PROMPTS):
            self.prompts.note(event)
        if record.topic is Topic.LEDGER:
            self._one_prompt(event)
            self.ledger.note(event)
            self.endings.note(record.offset, event)

    def _one_prompt(self, event: e.Event) -> None:
        """I2, the part that the ledger's fold leaves to us: a group is accepted for the prompt it was opened for."""
        if isinstance(event, e.GroupAccepted) and event.group_id in self.ledger.groups:
            opened = self.ledger.groups[event.group_id].opened
            if opened.prompt != event.prompt:
                named = f"opened for prompt {opened.prompt.id}, accepted for {event.prompt.id}"
                self.result.violations.append(f"I2 group {event.group_id} was {named}")

    def ledger_debts(self) -> None:
        """I1, I3, I5: what is owed at the end."""
        self.result.checked["groups"] = len(self.ledger.groups)
        self.result.checked["batches"] = len(self.ledger.batches)
        over = bool(self.ledger.finished) or self.copies > 0
        (self.result.violations if over else self.result.pending).extend(self.ledger.unfinished())
        if over and not self.result.drained:
            self.result.pending.append(f"I4 drops has {self.copies} of {self.rules.partitions + 1} RunFinished")

    def keys(self, store: Store | None) -> None:
        """I4."""
        debts = self.result.violations if self.result.drained else self.result.pending
        for partition in range(partitions(Topic.DROPS, self.rules)):
            keys, problems = audit_keys(self.log, partition, self.endings)
            self.result.violations += problems
            self._count("keys generated", keys.generated)
            self._count("keys dropped", keys.dropped)
            debts += keys.debts()
        if store is not None:
            left = self.result.checked["keys left"] = store.count_keys()
            if left:
                debts.append(f"I4 {left} keys are left under the run's prefix in Redis")

    def replay(self, started: e.RunStarted, sources: Sources | None) -> None:
        """I6. A run of another decision version can't be replayed by this code."""
        if started.decision_versions != DECISION_VERSIONS:
            versions = f"decided by {started.decision_versions}, this release has {DECISION_VERSIONS}"
            self.result.pending.append(f"I6 is not checked, decision versions differ: {versions}")
            return
        begun = time.perf_counter()
        every = stages(self.rules, self.members, self.prompts, sources)
        found = replay(self.log, self.rules, every, self.answers, self.result.drained)
        self.result.replay_s = time.perf_counter() - begun
        self.result.violations += found.differences
        self.result.pending += [f"I6 {lane}: {why} is not compared yet" for lane, why in found.waiting.items()]
        self.result.checked |= {"inputs replayed": found.inputs, "outputs compared": found.outputs}

    def _count(self, name: str, many: int) -> None:
        self.result.checked[name] = self.result.checked.get(name, 0) + many
