"""Why a process of the log ends, or starts over.

LogError
├── Stop         the log, or what is asked of it, is not as it must be: a person has to act
├── Unreachable  no broker answers
├── Fenced       another process has taken over: end, quietly
├── Fatal        the client is beyond use: end, and let the supervisor start a new process
└── Aborted      the transaction was undone: throw the state away and rebuild it from the log
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError


def fork_of(run: str) -> str:
    """The command that goes on in a new run, from the last checkpoint of one that can't."""
    return f"tamis fork {run} --as {run[:61]}-2"


class LogError(Exception):
    """Base of all. `exit_code` is the process's."""

    exit_code = 1


class Stop(LogError):
    """Something that no restart mends; the message names it, and the next step."""

    exit_code = 2


class Unreachable(LogError):
    """No broker at the address."""

    exit_code = 3


def no_answer(bootstrap: str, within_s: float, error: KafkaError) -> Unreachable:
    """The sentence about brokers that are not there, or that accept connections and say nothing that is understood."""
    return Unreachable(
        f"no Kafka broker answers at {bootstrap} within {within_s:g} s ({error.str()}); start it, start one here with "
        "`tamis up`, or correct --bootstrap (TAMIS_BOOTSTRAP); TLS and passwords that it wants belong into TAMIS_KAFKA"
    )


class Fenced(LogError):
    """Another process has this one's slot or partitions."""

    exit_code = 4


class Fatal(LogError):
    """An error after which the client can't go on."""

    exit_code = 5


class Aborted(LogError):
    """A transaction was aborted: nothing of it will ever be seen."""

    exit_code = 6


FENCING: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""Errors that say: another has the same slot."""

PASSING: Final = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors about a group's offsets that are over in a moment; the client doesn't mark all of them as retriable."""

REFUSED: Final = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, *FENCING})
"""Errors of sent offsets that say: this process isn't in the group any more."""
