"""The invariants I1-I3, I5 and I7 as a fold of the ledger (docs/architecture.md). The audit and the simulator use it.

`Ledger.violations` holds sentences, each beginning with the invariant's name. What only a finished run must fulfil is
asked by `unfinished`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import MembersCodec
from pipeline.domain.vocabulary import Purpose, Reason


@dataclass(slots=True)
class Life:
    """One group's life so far."""

    opened: e.GroupOpened
    accepted: bool = False
    ending: str | None = None
    counted: bool = True
    answers: int = 0
    batch: int | None = None


@dataclass(slots=True)
class BatchLife:
    """One batch's life so far."""

    groups: tuple[str, ...]
    trained: int = 0
    saved: int = 0
    returned: int = 0


@dataclass(slots=True)
class Ledger:
    """The fold. `ahead` counts, by domain, groups that are open or accepted and not yet trained on. `spent` are those
    deselected since the last step, which without refill count too."""

    rules: Rules
    members: MembersCodec
    groups: dict[str, Life] = field(default_factory=dict)
    batches: dict[int, BatchLife] = field(default_factory=dict)
    ahead: dict[str, int] = field(default_factory=dict)
    spent: list[str] = field(default_factory=list)
    version: int | None = None
    finished: list[e.RunFinished] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def note(self, event: e.Event) -> None:
        """Fold one ledger record."""
        match event:
            case e.GroupOpened():
                self._on_opened(event)
            case e.GroupAccepted():
                self._on_accepted(event)
            case e.GroupRejected(reason=Reason.UNDECODABLE) if self._has_ended(event.group_id):
                return  # the unreadable record was a copy: its group had ended already
            case e.GroupDeselected():
                self._on_deselected(event)
            case e.GroupRejected() | e.GroupExpired() | e.GroupEvaluated():
                self._end(event.group_id, type(event).__name__)
            case e.ReplacementWaived():
                self._answer(event.group_id, "ReplacementWaived")
            case e.BatchFormed():
                self._on_formed(event)
            case e.BatchTrained():
                self._forget_spent()
                self._on_trained(event)
            case e.BatchSkipped():
                self._forget_spent()
            case e.CheckpointSaved():
                for batch in event.batches:
                    self._on_saved(batch)
            case e.BatchReturned():
                self._forget_spent()
                self._on_returned(event)
            case e.RunFinished():
                self.finished.append(event)
            case _:
                return

    def unfinished(self) -> Iterator[str]:
        """What a finished run still owes."""
        for gid, life in self.groups.items():
            if life.ending is None:
                yield f"I1 group {gid} has no terminal event"
            elif life.opened.purpose is Purpose.TRAIN and life.ending != "trained" and life.answers != 1:
                yield f"I3 group {gid} ended ({life.ending}) and has {life.answers} answers, expected 1"
        for number, batch in self.batches.items():
            if batch.saved + batch.returned != 1:
                yield f"I5 batch {number} has {batch.saved} checkpoints and {batch.returned} returns, expected one"
        if len(self.finished) != 1:
            yield f"I1 the run has {len(self.finished)} RunFinished, expected 1"

    # --------------------------------------------------------------------------------------------------------- groups

    def _on_opened(self, event: e.GroupOpened) -> None:
        if event.group_id in self.groups:
            self._broken(f"I2 group {event.group_id} is opened twice")
            return
        self.groups[event.group_id] = Life(event)
        if event.replaces is not None:
            self._answer(event.replaces, f"PromptIssued {event.group_id}")
        if event.purpose is Purpose.TRAIN:
            domain = next((d for d in self.rules.domains if d.name == event.prompt.domain), None)
            if domain is None:
                self._broken(f"I7 group {event.group_id} is of domain {event.prompt.domain!r}, which the run lacks")
                return
            self.ahead[domain.name] = self.ahead.get(domain.name, 0) + 1
            most = ceil(self.rules.lead(domain) * self.rules.oversample_max)
            if self.ahead[domain.name] > most:
                self._broken(f"I7 {self.ahead[domain.name]} groups of {domain.name} are ahead, at most {most} may be")

    def _on_accepted(self, event: e.GroupAccepted) -> None:
        life = self._life(event.group_id, "GroupAccepted")
        if life is None:
            return
        if life.accepted or life.ending is not None:
            self._broken(f"I1 group {event.group_id} is accepted after {life.ending or 'it was accepted'}")
        life.accepted = True
        members = self.members.decode(event.members)
        slots = {m.slot for m in members}
        if len(members) != self.rules.group_size or len(slots) != len(members):
            self._broken(f"I2 group {event.group_id} has {len(members)} members in {len(slots)} slots")

    def _has_ended(self, gid: str) -> bool:
        life = self.groups.get(gid)
        return life is not None and life.ending is not None

    def _end(self, gid: str, ending: str) -> None:
        life = self._life(gid, ending)
        if life is None:
            return
        if life.ending is not None:
            self._broken(f"I1 group {gid} ends by {ending} after it ended by {life.ending}")
            return
        life.ending = ending
        self._uncount(life)

    def _on_deselected(self, event: e.GroupDeselected) -> None:
        life = self._life(event.group_id, "GroupDeselected")
        if life is not None and (not life.accepted or life.batch is not None):
            self._broken(f"I1 group {event.group_id} is deselected, but it doesn't stand in a window")
        selection = self.rules.selection
        if selection is None:
            self._broken(f"I1 group {event.group_id} is deselected in a run without a selection")
        elif not selection.refill and life is not None and life.ending is None:
            life.ending = "GroupDeselected"
            self.spent.append(event.group_id)
            return
        self._end(event.group_id, "GroupDeselected")

    def _forget_spent(self) -> None:
        for gid in self.spent:
            self._uncount(self.groups[gid])
        self.spent.clear()

    def _uncount(self, life: Life) -> None:
        if life.counted and life.opened.purpose is Purpose.TRAIN:
            self.ahead[life.opened.prompt.domain] = self.ahead.get(life.opened.prompt.domain, 0) - 1
        life.counted = False

    def _answer(self, gid: str, answer: str) -> None:
        life = self._life(gid, answer)
        if life is None:
            return
        life.answers += 1
        if life.answers > 1:
            self._broken(f"I3 group {gid} is answered again by {answer}")
        if life.ending is None or life.ending == "trained":
            self._broken(f"I3 group {gid} is answered by {answer}, but it has not ended unused")

    def _life(self, gid: str, what: str) -> Life | None:
        life = self.groups.get(gid)
        if life is None:
            self._broken(f"I2 {what} names group {gid}, which was never opened")
        return life

    # -------------------------------------------------------------------------------------------------------- batches

    def _on_formed(self, event: e.BatchFormed) -> None:
        self.batches[event.batch] = BatchLife(tuple(g.group_id for g in event.groups))
        wanted, most = sum([d.quota for d in self.rules.domains]), self._most_groups()
        if len(event.groups) > most or (len(event.groups) < wanted and event.short is None):
            self._broken(f"I5 batch {event.batch} has {len(event.groups)} groups of {wanted} and doesn't say why")
        if len(event.groups) >= wanted and event.short is not None:
            self._broken(f"I5 batch {event.batch} has all of its {wanted} groups and says it is short: {event.short}")
        if event.candidates < len(event.groups):
            self._broken(f"I5 batch {event.batch} has {len(event.groups)} groups of {event.candidates} candidates")
        for group in event.groups:
            life = self._life(group.group_id, f"batch {event.batch}")
            if life is None:
                continue
            if life.batch is not None:
                self._broken(f"I5 group {group.group_id} is in batch {event.batch} and in batch {life.batch}")
            if not life.accepted or life.ending is not None:
                self._broken(f"I1 group {group.group_id} is in batch {event.batch}, but not an accepted, live group")
            life.batch = event.batch
            staleness = event.follows_version - group.oldest_version
            if staleness > self.rules.max_staleness:
                self._broken(f"I5 group {group.group_id} is {staleness} versions old in batch {event.batch}")

    def _most_groups(self) -> int:
        """Groups in the largest batch: the quotas' sum, or a window where that is one step."""
        selection, wanted = self.rules.selection, sum([d.quota for d in self.rules.domains])
        return wanted if selection is None or selection.refill else selection.window

    def _on_trained(self, event: e.BatchTrained) -> None:
        batch = self._batch(event.batch, "BatchTrained")
        if batch is None:
            return
        batch.trained += 1
        if batch.trained > 1:
            self._broken(f"I5 batch {event.batch} has {batch.trained} BatchTrained")
        if self.version is not None and event.version != self.version + 1:
            self._broken(f"I5 version {event.version} follows version {self.version}")
        self.version = event.version
        for gid in batch.groups:
            if gid in self.groups:
                self._uncount(self.groups[gid])
        if batch.saved:
            self._end_trained(batch)

    def _on_saved(self, number: int) -> None:
        batch = self._batch(number, "CheckpointSaved")
        if batch is None:
            return
        batch.saved += 1
        if batch.saved > 1 or batch.returned:
            self._broken(f"I5 batch {number} is covered by a checkpoint after it was over")
        elif batch.trained:
            self._end_trained(batch)

    def _end_trained(self, batch: BatchLife) -> None:
        for gid in batch.groups:
            self._end(gid, "trained")

    def _on_returned(self, event: e.BatchReturned) -> None:
        batch = self._batch(event.batch, "BatchReturned")
        if batch is None:
            return
        batch.returned += 1
        if batch.returned > 1 or batch.saved:
            self._broken(f"I5 batch {event.batch} is returned after it was over")
        for gid in batch.groups:
            if gid in self.groups:
                self.groups[gid].batch = None

    def _batch(self, number: int, what: str) -> BatchLife | None:
        batch = self.batches.get(number)
        if batch is None:
            self._broken(f"I5 {what} names batch {number}, which was never formed")
        return batch

    def _broken(self, sentence: str) -> None:
        self.violations.append(sentence)
