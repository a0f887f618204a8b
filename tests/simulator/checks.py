"""What must hold of a whole simulated run: I1 to I7, restored states, memory, lineage, versions, the weights."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.topology import InvariantBroken, Output, Topic
from pipeline.domain.vocabulary import DropReason, Outcome, Purpose

from .log import Cause, Damaged, Record
from .stages import StageProcess, answers
from .trainer import Trainer
from .world import World

MOST_STATE_BYTES = 3_000


def problems(world: World, stages: list[StageProcess], trainer: Trainer) -> list[str]:
    found = [*world.violations, *world.ledger.violations]
    if found:
        return found
    return [
        *world.ledger.unfinished(),
        *_outcome(world),
        *_payloads(world),
        *_lineage(world),
        *_accepted(world),
        *_weights(world, trainer),
        *(p for stage in stages for p in _replayed(world, stage)),
        *(p for stage in stages for p in _restored(stage)),
        *_forgotten(stages, trainer),
    ]


def ledger_of(world: World) -> list[Record]:
    return world.log.topics[Topic.LEDGER][0]


def _outcome(world: World) -> Iterator[str]:
    finished = world.ledger.finished[0]
    if world.setup.expected not in (None, finished.outcome):
        yield f"the run ended as {finished.outcome}, expected {world.setup.expected}"
    copies = [r.event for p in world.log.topics[Topic.DROPS] for r in p if isinstance(r.event, e.RunFinished)]
    if copies != [finished] * (world.rules.partitions + 1):
        yield f"{len(copies)} copies of RunFinished in drops, expected {world.rules.partitions + 1}"


# ------------------------------------------------------------------------------------------------------------------ I4


def _payloads(world: World) -> Iterator[str]:
    if world.payloads.keys:
        yield f"I4 {len(world.payloads.keys)} keys are left, {next(iter(world.payloads.keys))} first"
    dropped: dict[str, list[Record]] = {}
    for records in world.log.topics[Topic.DROPS]:
        for record in records:
            if isinstance(record.event, e.PayloadsDropped):
                for key in record.event.keys:
                    dropped.setdefault(key, []).append(record)
    damaged = {
        e.key_of(r.event): None
        for partitions in world.log.topics.values()
        for records in partitions
        for r in records
        if isinstance(r.event, Damaged)
    }  # nobody can name the keys in such a record; the sweep finds those that are there
    for records in world.log.topics[Topic.RESPONSES]:
        for record in records:
            event = record.intact
            if not isinstance(event, e.ResponseGenerated) or event.payload_key is None or event.payload_key in dropped:
                continue
            if event.payload_key not in world.payloads.lost or event.group_id not in damaged:
                yield f"I4 key {event.payload_key} was written and never dropped"
    batch_of = {
        g.group_id: b.event for b in ledger_of(world) if isinstance(b.event, e.BatchFormed) for g in b.event.groups
    }
    for key, drops in dropped.items():
        named = [d for d in drops if isinstance(d.event, e.PayloadsDropped) and d.event.reason is not DropReason.SWEPT]
        if len(named) > 1:
            yield f"I4 key {key} was dropped {len(named)} times"
        for drop in named:
            yield from _drop_cause(world, key, drop, batch_of)


def _drop_cause(world: World, key: str, drop: Record, batch_of: dict[str, e.BatchFormed]) -> Iterator[str]:
    assert isinstance(drop.cause, Cause) and isinstance(drop.event, e.PayloadsDropped)
    cause = world.log.topics[drop.cause.topic][drop.cause.partition][drop.cause.offset].event
    gid = drop.event.group_id
    match cause:
        case e.ResponseDiscarded(payload_key=discarded):
            right = discarded == key
        case e.GroupRejected() | e.GroupDeselected() | e.GroupExpired() | e.GroupEvaluated():
            right = cause.group_id == gid
        case e.CheckpointSaved():
            right = gid in batch_of and batch_of[gid].batch in cause.batches
        case _:
            right = False
    if not right:
        yield f"I4 key {key} of {gid} was dropped because of {type(cause).__name__}"


# --------------------------------------------------------------------------------------------------- I6, and the states


def _replayed(world: World, stage: StageProcess) -> Iterator[str]:
    """Fold the stage's whole input again: the outputs recorded for each record are the ones that come out."""
    recorded: dict[int, list[tuple[int, Output]]] = {}
    for topic, partitions in world.log.topics.items():
        for number, records in enumerate(partitions):
            for record in records:
                c = record.cause
                if isinstance(c, Cause) and (c.stage, c.partition) == (stage.stage.name, stage.partition):
                    recorded.setdefault(c.offset, []).append((c.index, Output(topic, number, record.intact)))
    state = stage.stage.initial(stage.partition)
    for offset, record in enumerate(stage.input):
        before = dict(state.open) if isinstance(stage.stage, Assembler) else {}
        try:
            outputs = answers(stage.stage, state, record)
        except InvariantBroken as error:
            yield f"I6 {stage.name} can't take record {offset} again: {error}"
            return
        expected = sorted(recorded.pop(offset, []), key=lambda pair: pair[0])
        if list(enumerate(outputs)) != expected and repr(list(enumerate(outputs))) != repr(expected):
            yield f"I6 {stage.name} answers record {offset} by {outputs}, recorded is {expected}"
            return
        if before:
            yield from _closed(stage, before, state.open, outputs)
    if recorded:
        yield f"I6 {stage.name} has answers to records {list(recorded)[:5]}, which it never had"


def _closed(
    stage: StageProcess, before: dict[int, e.Event], after: dict[int, e.Event], outputs: list[Output]
) -> Iterator[str]:
    """A group that leaves the assembler with unanswered slots sends GroupClosed, once; any other sends none."""
    closed = [o.event.group_id for o in outputs if isinstance(o.event, e.GroupClosed)]
    expected = [g.opened.group_id for n, g in before.items() if n not in after and g.unanswered()]  # type: ignore[attr-defined]
    if sorted(closed) != sorted(expected):
        yield f"{stage.name} closes {closed}, expected {expected}"


def _restored(stage: StageProcess) -> Iterator[str]:
    """Snapshot and tail give the state that the running stage has, and so does the fold of everything."""
    if stage.committed != len(stage.input):
        return
    for from_snapshot in (True, False):
        if not stage.same(stage.folded(from_snapshot), stage.state):
            how = "snapshot and tail" if from_snapshot else "the fold of everything"
            yield f"I6 {stage.name}: {how} gives another state than the running one"


def _forgotten(stages: list[StageProcess], trainer: Trainer) -> Iterator[str]:
    """At the end nothing is held of anything that is over."""
    for stage in stages:
        if stage.committed != len(stage.input):
            continue
        held = stage.stage.entries(stage.state)
        if held > (stage.stage.name == "filter"):
            yield f"{stage.name} holds {held} things at the end: {stage.state}"
        size = len(stage.codec.encode(stage.state)) if stage.codec else 0
        if size > MOST_STATE_BYTES:
            yield f"{stage.name}'s state has {size} bytes at the end: {stage.state}"
    if trainer.book.pending and trainer.book.finished:
        yield f"the trainer holds batches {list(trainer.book.pending)} at the end"


# ------------------------------------------------------------------------------------------------- what events may say


def _lineage(world: World) -> Iterator[str]:
    """An answer continues the line of the group that it replaces, in its domain; any other group begins a line."""
    for gid, life in world.ledger.groups.items():
        o = life.opened
        if o.replaces is None:
            right = (o.root, o.attempt) == (gid, 1)
        else:
            old = world.ledger.groups[o.replaces].opened
            right = (o.root, o.attempt, o.prompt.domain) == (old.root, old.attempt + 1, old.prompt.domain)
        if not right:
            yield f"I3 group {gid} has root {o.root} and attempt {o.attempt}, but replaces {o.replaces}"


def _accepted(world: World) -> Iterator[str]:
    """What was accepted can teach: finite rewards that are not all the same; and belongs to its prompt."""
    for record in ledger_of(world):
        event = record.event
        if isinstance(event, e.GroupAccepted):
            rewards = [m.reward for m in world.members.decode(event.members)]
            known = [r for r in rewards if r is not None and isfinite(r)]
            if len(known) != len(rewards) or min(known) == max(known):
                yield f"group {event.group_id} was accepted with rewards {rewards}"
            opened = world.ledger.groups[event.group_id].opened
            if event.prompt != opened.prompt or opened.purpose is not Purpose.TRAIN:
                yield f"I2 group {event.group_id} was accepted for {event.prompt}, opened for {opened.prompt}"
            if event.oldest_version < opened.min_version:
                yield f"group {event.group_id} has version {event.oldest_version}, asked for {opened.min_version}"


def _weights(world: World, trainer: Trainer) -> Iterator[str]:
    """The last checkpoint has learned from each trained batch once, in order, and from no other."""
    trained: list[int] = []
    skipped = late = 0
    (last_seen,) = [
        r.cause.offset for r in ledger_of(world) if isinstance(r.event, e.RunFinished) and isinstance(r.cause, Cause)
    ]
    saved: e.CheckpointSaved | None = None
    for offset, record in enumerate(ledger_of(world)):
        match record.event:
            case e.BatchTrained(batch=batch):
                trained.append(batch)
            case e.BatchReturned(batch=batch, trained=True):
                trained.remove(batch)
            case e.BatchSkipped():
                skipped += offset <= last_seen
                late += offset > last_seen
            case e.CheckpointSaved() as event:
                saved = event
            case _:
                continue
    weights = trainer.checkpoints[saved.path] if saved else ()
    if weights != tuple(trained):
        yield f"the last checkpoint has learned from {list(weights)}, the ledger says {trained}"
    finished = world.ledger.finished[0]
    if finished.steps != len(trained) + skipped:
        yield f"RunFinished counts {finished.steps} steps, the ledger {len(trained)} and {skipped} skipped"
    if late > 1:
        yield f"{late} steps were skipped after the scheduler had ended the run"
    if finished.outcome is Outcome.COMPLETED and finished.steps > world.rules.steps:
        yield f"{finished.steps} steps were taken, at most {world.rules.steps} were asked for"
