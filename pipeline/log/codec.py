"""Events as bytes: Avro single-object encoding, which is a marker, the schema's fingerprint, the body.

A record says by itself what it is, in Kafka and in an archive. `decode` is total: any bytes give an event, a `Poison`
with its reason, or an `UnknownSchema`, for which the process must stop (a newer release wrote it).
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

from fastavro import schemaless_reader, schemaless_writer

from pipeline.domain.events import EVENTS, Event, Member
from pipeline.domain.vocabulary import DeadLetterReason
from pipeline.log.binary import Malformed, Read, Write
from pipeline.log.compile import codec_of, part_reader
from pipeline.log.schemas import SchemaVersion, read_schema, versions

MARKER: Final = b"\xc3\x01"
HEAD: Final = 10


class Poison(Exception):
    """A value that is no event: `reason` for the dead letter, `detail` for a person."""

    def __init__(self, reason: DeadLetterReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class UnknownSchema(Exception):
    """A record written with a schema that this release doesn't have."""

    def __init__(self, fingerprint: bytes) -> None:
        super().__init__(
            f"schema fingerprint {fingerprint.hex()} is not in schemas/lock.json; "
            "a newer release wrote this record: upgrade this process"
        )
        self.fingerprint = fingerprint


class _Known(NamedTuple):
    name: str
    read: Read


@cache
def _versions() -> tuple[dict[str, SchemaVersion], dict[bytes, SchemaVersion]]:
    """The newest version of each event by name; every version by the ten first bytes."""
    every = [version for version in versions() if version.event in EVENTS]
    return {v.event: v for v in every}, {MARKER + v.fingerprint: v for v in every}


@cache
def _writer(cls: type[Event]) -> tuple[bytes, Write]:
    return MARKER + _versions()[0][cls.__name__].fingerprint, codec_of(cls).writers[cls]


@cache
def _known(head: bytes) -> _Known:
    """What these bytes begin; KeyError for others."""
    newest, every = _versions()
    version = every[head]
    read = codec_of(EVENTS[version.event]).read
    return _Known(version.event, read if version is newest[version.event] else _older(version, newest, read))


def _older(old: SchemaVersion, newest: dict[str, SchemaVersion], read: Read) -> Read:
    new = newest[old.event]
    return upgrading(read_schema(old.event, old.version), read_schema(new.event, new.version), read)


def upgrading(old_schema: Any, new_schema: Any, read: Read) -> Read:
    """Reads an older version: Avro resolves it to the newest, whose bytes are then read as usual. Slow, and rare."""

    def read_old(data: bytes, at: int) -> tuple[Any, int]:
        source, resolved = io.BytesIO(data), io.BytesIO()
        source.seek(at)
        try:
            schemaless_writer(resolved, new_schema, schemaless_reader(source, old_schema, new_schema))
        except UnicodeDecodeError as error:
            raise Malformed(DeadLetterReason.BAD_TEXT, str(error)) from error
        except (EOFError, IndexError, OverflowError, MemoryError) as error:
            raise Malformed(DeadLetterReason.TRUNCATED, f"an older version that can't be read: {error!r}") from error
        return read(resolved.getvalue(), 0)[0], source.tell()

    return read_old


def encode(event: Event) -> bytes:
    """The event's bytes. Unwritable (a TypeError) names a field whose value isn't of its type."""
    head, write = _writer(type(event))  # type: ignore[arg-type]  # a class can be hashed
    return head + write(event)


def decode(value: bytes | None) -> Event:
    """The event in a record's value; raises Poison or UnknownSchema."""
    if value is None:
        raise _unreadable(value)
    try:
        known = _known(value[:HEAD])
    except KeyError:
        raise _unreadable(value) from None
    event: Event
    try:
        event, end = known.read(value, HEAD)
    except Malformed as error:
        where = ".".join((known.name, *error.field))
        raise Poison(error.reason, f"{where}: {error.detail}") from error
    if end != len(value):
        raise _wrong_end(known.name, end, len(value))
    return event


def kind_of(value: bytes | None) -> str | None:
    """Which event a record's value says that it is, unread; None for none that is known."""
    try:
        return _known((value or b"")[:HEAD]).name
    except KeyError:
        return None


def _wrong_end(name: str, end: int, size: int) -> Poison:
    if end > size:
        return Poison(DeadLetterReason.TRUNCATED, f"{name}: {end - size} bytes are missing at the end")
    return Poison(DeadLetterReason.TRAILING_BYTES, f"{name}: {size - end} bytes too many at the end")


def _unreadable(value: bytes | None) -> Exception:
    if value is None:
        return Poison(DeadLetterReason.NULL_VALUE, "the record has no value")
    if not value:
        return Poison(DeadLetterReason.EMPTY_VALUE, "the record's value has no bytes")
    if value[:2] != MARKER[: len(value)]:
        return Poison(DeadLetterReason.NO_MARKER, f"starts with {value[:2].hex(' ')}, expected c3 01")
    if len(value) < HEAD:
        return Poison(DeadLetterReason.TRUNCATED, f"{len(value)} bytes; marker and fingerprint alone are {HEAD}")
    return UnknownSchema(value[2:HEAD])


class Members:
    """The members of a group as one Avro array (`schemas/member`), without marker: it travels inside events.
    With `only`, members that are decoded have these fields; asking for another may be an AttributeError."""

    def __init__(self, only: Collection[str] | None = None) -> None:
        codec = codec_of(tuple[Member, ...])
        self._write: Callable[[Any], bytes] = codec.writers[tuple]
        self._read = codec.read if only is None else part_reader(Member, only)

    def encode(self, members: tuple[Member, ...]) -> bytes:
        """One Avro-encoded array."""
        return self._write(members)

    def decode(self, encoded: bytes) -> tuple[Member, ...]:
        """The members again, equal to those that were encoded; raises Poison."""
        return read_whole(self._read, encoded, "members")  # type: ignore[no-any-return]


def read_whole(read: Read, data: bytes, name: str) -> Any:
    """A value that must fill its bytes exactly; raises Poison."""
    try:
        value, end = read(data, 0)
    except Malformed as error:
        raise Poison(error.reason, f"{'.'.join((name, *error.field))}: {error.detail}") from error
    except IndexError as error:
        raise Poison(DeadLetterReason.TRUNCATED, f"{name}: the bytes end too early") from error
    if end != len(data):
        raise _wrong_end(name, end, len(data))
    return value


def to_json(event: Event) -> dict[str, Any]:
    """The event for people and for JSON tools: enums by name, bytes in base64, NaN and infinities as text."""
    return {"event": type(event).__name__, **as_json(event)}


def as_json(value: Any) -> dict[str, Any]:
    """The same for a part of an event, such as a member."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain(value: Any) -> Any:
    match value:
        case StrEnum():
            return value.value
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return str(value)
        case tuple() | list():
            return [_plain(item) for item in value]
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case _ if is_dataclass(value):
            return as_json(value)
        case _:
            return value
