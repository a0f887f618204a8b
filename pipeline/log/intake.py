"""The input of the serving loop, with the same checks and the same dead letters as in the loop of the pure stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message as KafkaMessage

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, Output, StageName
from pipeline.log.client import Connection
from pipeline.log.errors import Stop, fork_of
from pipeline.log.lane import Lane
from pipeline.log.reader import read_topic
from pipeline.log.tracker import Tracker


class _Keeping:
    """A stage without decisions: its state is the event that it was last given."""

    state_type: type[Any] | None = None

    def __init__(self, name: StageName) -> None:
        self.name = name

    def initial(self, partition: int) -> list[e.Event]:
        return []

    def step(self, state: list[e.Event], event: e.Event) -> Sequence[Output]:
        state.append(event)
        return ()

    def entries(self, state: list[e.Event]) -> int:
        return 0


class Intake:
    """The input of one stage. `dead_in_a_row` is the worst of its partitions."""

    def __init__(self, stage: StageName, rules: Rules) -> None:
        self._stage, self._rules = _Keeping(stage), rules
        self._lanes: dict[int, Lane] = {}
        self._ends: dict[int, e.RunFinished] = {}

    def read(self, record: KafkaMessage) -> tuple[e.Event | None, Sequence[Output]]:
        """The event, or None and the dead letter. Stop for what can't be skipped."""
        partition = record.partition() or 0
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(self._stage, self._rules, partition)
        letters = lane.step(record)
        if letters:
            return None, letters
        event: e.Event = lane.state.pop()
        if isinstance(event, e.RunFinished):
            self._ends[partition] = event
        return event, ()

    def end(self, partition: int) -> e.RunFinished:
        """The RunFinished that was read there."""
        return self._ends[partition]

    @property
    def dead_in_a_row(self) -> int:
        """How many records, one after the other, could not be read."""
        return max((lane.dead_in_a_row for lane in self._lanes.values()), default=0)

    def forget_dead(self) -> tuple[str, ...]:
        """Place and reason of the dead letters since the last call; they are committed."""
        dead = tuple(where for lane in self._lanes.values() for where in lane.dead)
        for lane in self._lanes.values():
            lane.forget_dead()
        return dead

    def pinned(self, connection: Connection, home: Tracker) -> e.Event:
        """The record that a partition's metadata names. Stop if it is gone."""
        topic, offset = READS[self._stage.name], home.pinned or 0
        for record in read_topic(connection, topic, [home.partition], offset):
            if record.offset != offset:
                break
            return record.event()
        raise Stop(
            f"{topic}/{home.partition}/{offset} is gone, but {self._stage.name} goes on from it: "
            f"restore the topic from an archive, or {fork_of(connection.run)}"
        )
