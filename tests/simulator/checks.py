"""What must hold of a whole simulated run: I1 to I7, restored states, memory, lineage, versions, the weights."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.open_groups import OpenGroup
from pipeline.domain.run_state import Run
from pipeline.domain.topology import InvariantBroken, Output, Topic
from pipeline.domain.vocabulary import DiscardReason, DropReason, Outcome, Purpose

from .answered import Answers
from .asking import Asking
from .log import Cause, Damaged, Record
from .stages import StageProcess, answers
from .starved import Starving, outages
from .trainer import Trainer
from .windows import selection_problems
from .world import World

MOST_STATE_BYTES = 3_000

Recorded = dict[tuple[str, int], dict[int, list[tuple[int, Output]]]]


def problems(world: World, stages: list[StageProcess], trainer: Trainer) -> list[str]:
    found = [*world.violations, *world.ledger.violations]
    if found:
        return found
    by_cause = _by_cause(world)
    return [
        *world.ledger.unfinished(),
        *_outcome(world),
        *_payloads(world),
        *_lineage(world),
        *Answers(world).problems(),
        *outages(world),
        *Starving(world, by_cause.get(("scheduler", 0), {}), by_cause.get(("batcher", 0), {})).problems(),
        *_assembled(world),
        *_accepted(world),
        *_order(world),
        *_evaluations(world),
        *_weights(world, trainer),
        *selection_problems(world, [record.event for record in ledger_of(world)]),
        *(p for stage in stages for p in _replayed(by_cause, stage)),
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


def _by_cause(world: World) -> Recorded:
    """What was recorded as the answer of each stage-partition to each offset, with its index."""
    found: Recorded = {}
    for topic, partitions in world.log.topics.items():
        for number, records in enumerate(partitions):
            for record in records:
                if isinstance(record.cause, Cause):
                    c = record.cause
                    answers_of = found.setdefault((c.stage, c.partition), {})
                    answers_of.setdefault(c.offset, []).append((c.index, Output(topic, number, record.intact)))
    return found


def _replayed(by_cause: Recorded, stage: StageProcess) -> Iterator[str]:
    """Fold the stage's whole input again: the outputs recorded for each record are the ones that come out."""
    recorded = dict(by_cause.get((stage.stage.name, stage.partition), {}))
    asking = Asking(stage.name, stage.world.rules)
    state = stage.stage.initial(stage.partition)
    for offset, record in enumerate(stage.input):
        before: dict[int, OpenGroup] = dict(state.open) if isinstance(stage.stage, Assembler) else {}
        try:
            outputs = answers(stage.stage, state, record)
        except InvariantBroken as error:
            yield f"I6 {stage.name} can't take record {offset} again: {error}"
            return
        expected = sorted(recorded.pop(offset, []), key=lambda pair: pair[0])
        if list(enumerate(outputs)) != expected and repr(list(enumerate(outputs))) != repr(expected):
            yield f"I6 {stage.name} answers record {offset} by {outputs}, recorded is {expected}"
            return
        if isinstance(stage.stage, Assembler):
            yield from _closed(stage, before, state.open, outputs)
            yield from asking.problems(record.event, before, state.open, outputs)
    if recorded:
        yield f"I6 {stage.name} has answers to records {list(recorded)[:5]}, which it never had"
    if stage.committed == len(stage.input) and not stage.same(state, stage.state):
        yield f"I6 {stage.name}: the fold of everything gives another state than the running one"


def _closed(
    stage: StageProcess, before: dict[int, OpenGroup], after: dict[int, OpenGroup], outputs: list[Output]
) -> Iterator[str]:
    """A group that leaves the assembler with unanswered slots sends GroupClosed, once; any other sends none."""
    closed = [o.event.group_id for o in outputs if isinstance(o.event, e.GroupClosed)]
    expected = [g.opened.group_id for n, g in before.items() if n not in after and (g.unanswered() or g.asked_again())]
    if sorted(closed) != sorted(expected):
        yield f"{stage.name} closes {closed}, expected {expected}"


def _restored(stage: StageProcess) -> Iterator[str]:
    """Snapshot and tail give the state that the running stage has."""
    if stage.committed == len(stage.input) and not stage.same(stage.folded(), stage.state):
        yield f"I6 {stage.name}: snapshot and tail give another state than the running one"


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
        if isinstance(stage.state, Run) and stage.state.held_bytes != 0:
            yield f"{stage.name} reckons with {stage.state.held_bytes} bytes of payloads at the end"
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


def _assembled(world: World) -> Iterator[str]:
    """A group is assembled once, of exactly its size, from distinct slots, in slot order; what the response filter
    refused is in none."""
    seen, refused = dict[str, None](), _refused(world)
    for records in world.log.topics[Topic.GROUPS]:
        for record in records:
            event = record.intact
            if isinstance(event, e.GroupAssembled):
                members = world.members.decode(event.members)
                slots = [m.slot for m in members]
                if event.group_id in seen or slots != sorted(dict.fromkeys(slots)) or len(slots) != event.group_size:
                    yield f"I2 group {event.group_id} of {event.group_size} is assembled from slots {slots}"
                seen[event.group_id] = None
                for m in members:
                    if refused.get((event.group_id, m.slot, m.round), False):
                        yield f"group {event.group_id} has a member that was refused: slot {m.slot}, round {m.round}"


def _refused(world: World) -> dict[tuple[str, int, int], bool]:
    """Whether the response filter refused the response that counts, by group, slot and round: the first of them."""
    found: dict[tuple[str, int, int], bool] = {}
    for records in world.log.topics[Topic.ROLLOUTS]:
        for record in records:
            event = record.intact
            if isinstance(event, e.ResponseScored):
                key = (event.group_id, event.slot, event.round)
                found.setdefault(key, event.discard is DiscardReason.FILTERED)
    return found


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


def _order(world: World) -> Iterator[str]:
    """Batches take the groups of a domain in the order of their acceptance; those returned come first."""
    place: dict[str, int] = {}
    returned: dict[str, None] = {}
    last: dict[str, int] = {}
    batches: dict[int, e.BatchFormed] = {}
    for offset, record in enumerate(ledger_of(world)):
        match record.event:
            case e.GroupAccepted(group_id=gid):
                place[gid] = offset
            case e.BatchReturned(batch=batch):
                returned |= dict.fromkeys(g.group_id for g in batches[batch].groups)
            case e.BatchFormed() as formed:
                batches[formed.batch] = formed
                for group in formed.groups:
                    if group.group_id not in returned:
                        if place[group.group_id] < last.get(group.domain, -1):
                            yield f"batch {formed.batch} takes {group.group_id} after younger groups"
                        last[group.domain] = place[group.group_id]
            case _:
                continue


def _evaluations(world: World) -> Iterator[str]:
    """Each evaluation is started once, finished once, and whole; the first comes before any training group."""
    started: dict[int, e.EvaluationStarted] = {}
    finished: dict[int, e.EvaluationFinished] = {}
    for record in ledger_of(world):
        match record.event:
            case e.EvaluationStarted() as event:
                if event.step in [s.step for s in started.values()]:
                    yield f"the evaluation after step {event.step} is started again"
                started[event.eval.id] = event
            case e.EvaluationFinished() as event:
                if event.eval.id in finished:
                    yield f"evaluation {event.eval.id} is finished again"
                finished[event.eval.id] = event
                samples = event.graded + event.ungraded + event.failed
                if not event.cut and samples != event.groups * world.rules.evaluation.samples:
                    yield f"evaluation {event.eval.id} counts {samples} samples in {event.groups} groups"
            case e.GroupOpened(purpose=Purpose.TRAIN, group_id=gid):
                if world.setup.eval_prompts and 0 not in finished:
                    yield f"training group {gid} is opened before the first evaluation is over"
            case _:
                continue
    if started.keys() != finished.keys():
        yield f"evaluations {list(started)} were started, {list(finished)} finished"


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
