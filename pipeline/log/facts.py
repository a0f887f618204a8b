"""Facts: records that no record caused. Their cause is `producer/slot/counter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import KafkaError, Producer

from pipeline.domain.topology import Output
from pipeline.log.cause import CAUSE, FactCauses
from pipeline.log.client import Connection, fact_producer, give_up
from pipeline.log.errors import Unreachable
from pipeline.log.lane import Writer
from pipeline.log.transaction import Message

FLUSH_S = 30.0


class Facts:
    """Facts that wait for a stage's next transaction. They stay until one holds them for good: nobody would repeat
    those that went down with an aborted one."""

    def __init__(self, source: Callable[[], Sequence[Output]], writer: Writer, causes: FactCauses) -> None:
        self._source, self._writer, self._causes = source, writer, causes
        self.outputs: list[Output] = []
        self.messages: list[Message] = []

    def ask(self) -> None:
        """Take what the source has."""
        new = self._source()
        self.outputs += new
        self.messages += [self._writer.record(output, self._causes.next()) for output in new]

    def clear(self) -> None:
        """They have been committed."""
        self.outputs.clear()
        self.messages.clear()


class FactWriter:
    """Writes facts without a transaction: for processes that decide nothing (command line, ticker)."""

    def __init__(self, connection: Connection, producer: str) -> None:
        self._writer = Writer(connection.run)
        self._causes = FactCauses(producer, connection.slot)
        self._producer: Producer = fact_producer(connection)
        self._address = connection.bootstrap
        self.errors: list[str] = []

    def send(self, outputs: Iterable[Output]) -> None:
        """Hand facts over; they are on their way, not yet written."""
        for output in outputs:
            message = self._writer.record(output, self._causes.next())
            self._producer.produce(
                message.topic,
                message.value,
                message.key,
                message.partition,
                self._delivered,
                headers=[(CAUSE, message.cause.encode())],
            )
        self._producer.poll(0)

    def write(self, outputs: Iterable[Output]) -> None:
        """Write facts and wait for it; Unreachable if they didn't all arrive within 30 s."""
        self.errors.clear()
        self.send(outputs)
        left = self._producer.flush(FLUSH_S)
        if left or self.errors:
            raise Unreachable(
                f"{left + len(self.errors)} facts were not written to {self._address}: "
                f"{', '.join(self.errors) or 'no answer'}; check the broker and try again"
            )

    def close(self, timeout_s: float = 2.0) -> None:
        """Wait for what is on its way, up to `timeout_s`, and give the client up."""
        self._producer.flush(timeout_s)
        give_up(self._producer)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.errors.append(error.str())


def write_facts(connection: Connection, producer: str, outputs: Iterable[Output]) -> None:
    """Write these and no more; Unreachable if they didn't all arrive within 30 s."""
    writer = FactWriter(connection, producer)
    try:
        writer.write(outputs)
    finally:
        writer.close(0)
