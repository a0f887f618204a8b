"""The reapers: which payload keys are no longer needed, and why. The shell unlinks them before the record commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.ids import number_of, partition_of
from pipeline.domain.topology import InvariantBroken, MembersCodec, Output, StageName, Topic
from pipeline.domain.vocabulary import DropReason, Reason


@dataclass(slots=True)
class HeldGroup:
    """A group of a batch without a checkpoint: its payloads may be needed again."""

    group_id: str
    members: bytes


@dataclass(slots=True)
class Held:
    """Groups that live (opened, not ended), and the batches without a checkpoint. `highest` number opened, or -1."""

    highest: int = -1
    live: dict[str, None] = field(default_factory=dict)
    batches: dict[int, list[HeldGroup]] = field(default_factory=dict)

    def is_live(self, group_id: str) -> bool:
        """Whether the sweep must leave a group's keys alone: it lives, or may have been opened since."""
        return group_id in self.live or number_of(group_id) >= self.highest


class Reaper:
    """Step of the reaper over the ledger."""

    name = StageName.REAPER
    state_type: type[Any] | None = Held

    def __init__(self, members: MembersCodec) -> None:
        self.members = members

    def initial(self, partition: int) -> Held:
        """Nothing was opened."""
        return Held()

    def entries(self, state: Held) -> int:
        """Live groups."""
        return len(state.live)

    def step(self, state: Held, event: e.Event) -> Iterator[Output]:
        """Fold one record of the ledger."""
        match event:
            case e.GroupOpened():
                state.highest = max(state.highest, number_of(event.group_id))
                state.live[event.group_id] = None
            case e.GroupRejected(reason=Reason.UNDECODABLE) if event.group_id not in state.live:
                return  # the unreadable record was a copy: its group has ended already
            case e.GroupRejected():
                yield from self._end(state, event.group_id, event.members, DropReason.REJECTED, event.at)
            case e.GroupDeselected():
                yield from self._end(state, event.group_id, event.members, DropReason.DESELECTED, event.at)
            case e.GroupExpired():
                yield from self._end(state, event.group_id, event.members, DropReason.EXPIRED, event.at)
            case e.GroupEvaluated():
                yield from self._end(state, event.group_id, event.members, DropReason.EVALUATED, event.at)
            case e.BatchFormed():
                state.batches[event.batch] = [HeldGroup(g.group_id, g.members) for g in event.groups]
            case e.BatchReturned():
                state.batches.pop(event.batch, None)
            case e.CheckpointSaved():
                for batch in event.batches:
                    for group in state.batches.pop(batch):
                        yield from self._end(state, group.group_id, group.members, DropReason.TRAINED, event.at)
            case e.RunFinished():
                yield Output(Topic.DROPS, 0, event)
            case _:
                return

    def _end(self, state: Held, group_id: str, members: bytes, reason: DropReason, at: int) -> Iterator[Output]:
        if group_id not in state.live:
            raise InvariantBroken(f"group {group_id} ends ({reason}), but it is not live")
        del state.live[group_id]
        kept = self.members.decode(members) if members else ()
        keys = tuple(m.payload_key for m in kept if m.payload_key is not None)
        if keys:
            yield Output(Topic.DROPS, partition_of(group_id), e.PayloadsDropped(group_id, keys, reason, at))


@dataclass(slots=True)
class Discards:
    """The discard reaper remembers its partition alone."""

    partition: int


class DiscardReaper:
    """Step of the reaper of single responses, one per partition of `discards`. It keeps no snapshots."""

    name = StageName.DISCARD_REAPER
    state_type: type[Any] | None = None

    def initial(self, partition: int) -> Discards:
        """Its partition."""
        return Discards(partition)

    def entries(self, state: Discards) -> int:
        """Nothing is held."""
        return 0

    def step(self, state: Discards, event: e.Event) -> Iterator[Output]:
        """Fold one record of `discards`."""
        match event:
            case e.ResponseDiscarded():
                if event.payload_key is not None:
                    dropped = e.PayloadsDropped(event.group_id, (event.payload_key,), DropReason.DISCARDED, event.at)
                    yield Output(Topic.DROPS, state.partition, dropped)
            case e.RunFinished():
                yield Output(Topic.DROPS, state.partition, event)
            case e.Undecodable():
                return
            case _:
                raise InvariantBroken(f"the discard reaper cannot take {type(event).__name__}")
