"""Rebuilding the offsets of consumer groups that were deleted, from what the stages have written.

Every record names its cause, and a stage's outputs are written whole with the offset or not at all. So a pure stage has
handled all input up to the last that one of its records names. Input after that led to nothing: it is handled again, on
the same state, and leads to nothing again. A generator or scorer has finished the records that have all their answers.
The trainer reads its ledger from the start. Snapshots aren't pointed to any more: states are folded anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import PURE_STAGES, READS, StageName, Topic, partitions
from pipeline.log.admin import commit_offsets
from pipeline.log.cause import parse_cause
from pipeline.log.client import Connection, make_client, reader_settings, using
from pipeline.log.codec import Poison
from pipeline.log.metadata import MAX_DONE, OffsetMetadata, pack_done
from pipeline.log.reader import Record, read_topic
from pipeline.log.topics import group_name, topic_name

Answered = dict[tuple[str, int], dict[int, set[int]]]
"""By stage and input partition: for each input offset, the indexes of the records that it led to."""


def recover_run(connection: Connection, rules: Rules) -> dict[StageName, list[int]]:
    """Commit offsets for the stages that have lost theirs; returns them by stage and partition. Stop if one of
    these stages has a running process."""
    lost = [stage for stage in StageName if _is_lost(connection, stage, rules)]
    if not lost:
        return {}
    answered = _answered(connection, lost)
    recovered = {}
    for stage in lost:
        places = [_place(connection, stage, p, answered[stage.value, p]) for p in range(_inputs(stage, rules))]
        commit_offsets(connection, stage, places)
        recovered[stage] = [place.offset for place in places]
    return recovered


def _inputs(stage: StageName, rules: Rules) -> int:
    return partitions(READS[stage], rules)


def _is_lost(connection: Connection, stage: StageName, rules: Rules) -> bool:
    settings = {**reader_settings(connection), "group.id": group_name(connection.run, stage)}
    topic = topic_name(connection.run, READS[stage])
    asked = [TopicPartition(topic, partition) for partition in range(_inputs(stage, rules))]
    with using(make_client(Consumer, connection, settings)) as consumer:
        return any(found.offset == OFFSET_INVALID for found in consumer.committed(asked, timeout=30.0))


def _answered(connection: Connection, stages: Sequence[StageName]) -> Answered:
    """What the records of these stages answer. Snapshots don't count: they answer nothing."""
    found: Answered = defaultdict(lambda: defaultdict(set))
    inputs = {stage.value: READS[stage].value for stage in stages}
    for topic in Topic:
        if topic is Topic.SNAPSHOTS:
            continue
        for record in read_topic(connection, topic):
            cause = parse_cause(record.cause)
            if cause is not None and inputs.get(cause.stage) == cause.topic:
                found[cause.stage, cause.partition][cause.offset].add(cause.index)
    return found


def _place(
    connection: Connection, stage: StageName, partition: int, answered: Mapping[int, set[int]]
) -> TopicPartition:
    """Where the stage goes on in a partition of its input."""
    if stage is StageName.TRAINER:
        return TopicPartition("", partition, 0)
    records = list(read_topic(connection, READS[stage], [partition]))
    if stage in PURE_STAGES:
        offset = max(answered, default=-1) + 1
        metadata = OffsetMetadata(end=_ends(records, offset, stage))
    else:
        offset, metadata = _unfinished(records, answered)
    return TopicPartition("", partition, offset, metadata.format())


def _ends(records: Sequence[Record], offset: int, stage: StageName) -> int:
    """How many RunFinished a stage has handled before `offset`, or written itself on its own input."""
    prefix = f"{stage.value}/"
    finished = [r for r in records if isinstance(_event(r), e.RunFinished)]
    return sum(1 for r in finished if r.offset < offset or (r.cause or "").startswith(prefix))


def _unfinished(records: Sequence[Record], answered: Mapping[int, set[int]]) -> tuple[int, OffsetMetadata]:
    """The lowest unfinished offset, and the finished ones above it as a bitmap."""
    events = {record.offset: _event(record) for record in records}
    closed = {event.group_id for event in events.values() if isinstance(event, e.GroupClosed)}
    finished = {
        offset
        for offset, event in events.items()
        if len(answered.get(offset, ())) >= _wanted(event) or e.key_of(event or e.Event()) in closed
    }
    position = min((o for o in events if o not in finished), default=max(events, default=-1) + 1)
    policies = [o for o, event in events.items() if isinstance(event, e.PolicyPublished) and o < position]
    return position, OffsetMetadata(
        policy=max(policies, default=None),
        end=sum(1 for o, event in events.items() if isinstance(event, e.RunFinished) and o < position),
        done=pack_done(position, (o for o in finished if position <= o < position + MAX_DONE)),
    )


def _event(record: Record) -> e.Event | None:
    try:
        return record.event()
    except Poison:
        return None


def _wanted(event: e.Event | None) -> int:
    """How many answers a record of `prompts` or `responses` gets; one that can't be read gets its dead letter."""
    match event:
        case e.PromptIssued():
            return event.group_size + event.redundancy
        case e.ResponsesRequested():
            return len(event.slots)
        case e.ResponseGenerated() | e.RunFinished() | None:
            return 1
        case _:
            return 0
