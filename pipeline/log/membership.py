"""A process's place in its stage's consumer group. Callbacks only note what happened; the loop acts after `take`.

A new assignment is not read from until `start` says where: the states have to be rebuilt first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from pipeline.domain.topology import READS, StageName
from pipeline.health import Standing
from pipeline.log.admin import topics_of_broker
from pipeline.log.client import Connection, leave, stage_consumer
from pipeline.log.errors import Fatal, Fenced, Stop, Unreachable, fork_of
from pipeline.log.reader import take
from pipeline.log.topics import topic_name

PLACE_S: Final = 45.0
"""How long a group may leave this process without an answer while its broker can be reached. After its broker had gone
and come back, a client has been seen to ask for a place no more; a process that is started again gets one at once."""
ASKED_S: Final = 3.0
GONE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001
log = structlog.get_logger(__name__)


class Membership:
    """The consumer of one stage. `waiting`: partitions that were assigned and aren't read yet; `changed`: partitions
    came or went since the loop last looked, so what was taken before is void; `owned`: what the group has given to this
    process, None while it has not said."""

    def __init__(self, connection: Connection, stage: StageName) -> None:
        self._topic = topic_name(connection.run, READS[stage])
        self._connection = connection
        self._placeless_since: float | None = time.monotonic()
        self.owned: list[int] | None = None
        self.waiting: list[int] | None = None
        self.changed = False
        self.consumer = stage_consumer(connection, stage, self._on_assign, self._on_revoke, self._on_lost)

    def take(self, timeout_s: float) -> list[Message]:
        """What has arrived, at once; waits for the first record only."""
        messages = take(self.consumer, timeout_s)
        if self.owned is None:
            self._expect_place(time.monotonic())
        return [message for message in messages if self._is_record(message)]

    def start(self, positions: Mapping[int, int]) -> None:
        """Read the waiting partitions from these offsets."""
        self.waiting = None
        self.consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in positions.items()])

    def restart(self) -> None:
        """Put all partitions back to waiting."""
        self.consumer.assign([])
        self.waiting = list(self.owned or ())

    def stay(self) -> None:
        """Let the client do its part between two steps of something long; nothing is read meanwhile."""
        message = self.consumer.poll(0)
        if message is not None:
            self._is_record(message)

    def standing(self, stage: StageName, behind_since: float | None) -> Standing:
        """How the stage stands here; `behind_since`: when the oldest result came about that isn't committed."""
        partitions = None if self.owned is None else len(self.owned)
        return Standing(stage.value, partitions, self.waiting is None, behind_since)

    def metadata(self) -> Any:
        """The group metadata of this moment; with it, sent offsets are refused once another member has taken over."""
        return self.consumer.consumer_group_metadata()

    def close(self) -> None:
        """Leave."""
        leave(self.consumer)

    def _expect_place(self, now: float) -> None:
        """End a process that would wait for ever; while no broker answers, it waits for that."""
        if self._placeless_since is None:
            self._placeless_since = now
        elif now - self._placeless_since > PLACE_S:
            self._placeless_since = None
            with suppress(Unreachable):
                topics_of_broker(self._connection, ASKED_S)
                raise Fatal(f"the group of {self._topic} gave no place for {PLACE_S:g} s; start this process again")

    def _on_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.owned, self._placeless_since = sorted(p.partition for p in partitions), None
        self.waiting, self.changed = list(self.owned), True
        consumer.assign([])

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self.owned:
            log.info("given up", topic=self._topic, partitions=self.owned)
        self.owned = None
        self.waiting, self.changed = None, True
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        log.warning("lost", topic=self._topic, partitions=[p.partition for p in partitions])
        self._on_revoke(consumer, partitions)

    def _is_record(self, message: Message) -> bool:
        """False for a passing trouble, which the client mends by itself; raises for one that it can't."""
        error = message.error()
        if error is None:
            return True
        where = f"{message.topic()}/{message.partition()}"
        if error.code() in GONE:
            run = self._connection.run
            advice = f"see tamis audit {run}, then {fork_of(run)}"
            raise Stop(f"{where}: the next record is gone ({error.str()}); {advice}")
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise Stop(f"{where} does not exist; was run {self._connection.run} deleted? see tamis runs")
        if error.code() == KafkaError.FENCED_INSTANCE_ID or "fenced" in error.str().lower():
            raise Fenced(f"{error.str()}; another process has this slot; give each its own (--slot)")
        if error.fatal():
            raise Fatal(error.str())
        log.warning("kafka", error=error.str(), code=error.name())
        return False
