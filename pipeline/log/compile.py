"""Codecs for the types that events and states are made of: dataclasses, enums, sequences, maps."""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable
from dataclasses import is_dataclass, make_dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter, call
from typing import Any

from pipeline.domain.vocabulary import DeadLetterReason
from pipeline.log.binary import MISS, SCALARS, VARINTS, Codec, Malformed, Unwritable, Write, read_long, shorts, union
from pipeline.log.derive import SEQUENCES, choices, item_type, stored_fields


def codec_of(kind: Any) -> Codec:
    """The codec of a type; its bytes are those of the schema that `derive` gives for it."""
    return _codec_of(kind)


@cache
def _codec_of(kind: Any) -> Codec:
    if kind in SCALARS:
        return SCALARS[kind]
    if kind is None:
        return SCALARS[type(None)]
    if branches := choices(kind):
        return union(tuple(codec_of(branch) for branch in branches))
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _enum(kind)
    origin = typing.get_origin(kind)
    if origin in SEQUENCES:
        return _sequence(typing.cast(type[Any], origin), codec_of(item_type(kind)))
    if origin is dict:
        key, value = typing.get_args(kind)
        return _mapping(codec_of(key), codec_of(value))
    raise TypeError(f"{kind} has no codec")


def _enum(kind: type[StrEnum]) -> Codec:
    members = list(kind)
    written = {member: VARINTS[index] for index, member in enumerate(members)}

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(members):
            raise Malformed(DeadLetterReason.WRONG_TYPE, f"symbol {index} of the {len(members)} of {kind.__name__}")
        return members[index], at

    return Codec({kind: written.__getitem__}, read, shorts({2 * i: m for i, m in enumerate(members[:64])}))


def _write_item(codec: Codec) -> Write:
    """A writer for items whose type differs from one to the next."""
    writers = codec.writers

    def write(value: Any) -> bytes:
        found = writers.get(type(value)) or codec.writer_for(type(value))
        return found(value)

    return write


def _sequence(kind: type[Any], item: Codec) -> Codec:
    write_item, read_item, short = _write_item(item), item.read, item.short

    def write(values: Any) -> bytes:
        return b"".join((VARINTS[len(values)], *map(write_item, values), b"\0")) if values else b"\0"

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values: list[Any] = []
        add = values.append
        while True:
            count, at = _count(data, at)
            if not count:
                return (values if kind is list else kind(values)), at
            for _ in range(count):
                value = short[data[at]]
                if value is MISS:
                    value, at = read_item(data, at)
                else:
                    at += 1
                add(value)

    return Codec({kind: write}, read, shorts({0: ()} if kind is tuple else {}))


def _count(data: bytes, at: int) -> tuple[int, int]:
    """How many items the next block has; a negative number is followed by the block's size in bytes."""
    count, at = read_long(data, at)
    if count < 0:
        _, at = read_long(data, at)
    return abs(count), at


def _mapping(key: Codec, value: Codec) -> Codec:
    """A map with text keys is an Avro map, one with others an array of entries: the same bytes."""
    write_key, write_value = _write_item(key), _write_item(value)

    def write(entries: dict[Any, Any]) -> bytes:
        if not entries:
            return b"\0"
        return b"".join((VARINTS[len(entries)], *(write_key(k) + write_value(v) for k, v in entries.items()), b"\0"))

    def read(data: bytes, at: int) -> tuple[dict[Any, Any], int]:
        entries: dict[Any, Any] = {}
        while True:
            count, at = _count(data, at)
            if not count:
                return entries, at
            for _ in range(count):
                name, at = key.read(data, at)
                entries[name], at = value.read(data, at)

    return Codec({dict: write}, read)


def _record(cls: type[Any]) -> Codec:
    names = tuple(field.name for field, _ in stored_fields(cls))
    codecs = tuple(codec_of(kind) for _, kind in stored_fields(cls))
    make = _maker(cls, names)
    reads = tuple((codec.short, codec.read) for codec in codecs)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values: list[Any] = []
        add = values.append
        try:
            for short, read_field in reads:
                value = short[data[at]]
                if value is MISS:
                    value, at = read_field(data, at)
                else:
                    at += 1
                add(value)
        except (IndexError, struct.error) as error:
            raise _inside(names, values, Malformed(DeadLetterReason.TRUNCATED, "the bytes end too early")) from error
        except Malformed as error:
            raise _inside(names, values, error) from error.__cause__
        return make(*values), at

    return Codec({cls: _record_writer(cls, names, codecs)}, read)


def _inside(names: tuple[str, ...], values: list[Any], error: Malformed) -> Malformed:
    error.field = (names[len(values)], *error.field)
    return error


def _maker(cls: type[Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Builds instances from the stored fields. The generated `__init__` of a frozen class sets each field the slow way;
    a twin without that, of the same layout, becomes the real thing by its `__class__`."""
    if not cls.__dataclass_params__.frozen or "__slots__" not in cls.__dict__ or hasattr(cls, "__post_init__"):
        return cls if not hasattr(cls, "__post_init__") else _by_name(cls, names)
    twin = make_dataclass(cls.__name__, [(name, object) for name in names], bases=cls.__bases__, slots=True)

    def make(*values: Any) -> Any:
        made = twin(*values)
        made.__class__ = cls
        return made

    return make


def _by_name(cls: type[Any], names: tuple[str, ...]) -> Callable[..., Any]:
    return lambda *values: cls(**dict(zip(names, values, strict=True)))


def _record_writer(cls: type[Any], names: tuple[str, ...], codecs: tuple[Codec, ...]) -> Write:
    """Each combination of field types is checked once, and has its own row of writers from then on."""
    get: Callable[[Any], tuple[Any, ...]] = (
        attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
    )
    rows: dict[tuple[type, ...], tuple[Write, ...]] = {}

    def row_for(values: tuple[Any, ...]) -> tuple[Write, ...]:
        found = []
        for name, codec, value in zip(names, codecs, values, strict=True):
            try:
                found.append(codec.writer_for(type(value)))
            except Unwritable as error:
                raise Unwritable(f"{cls.__name__}.{name} = {value!r:.200}: {error}") from None
        rows[tuple(map(type, values))] = tuple(found)
        return tuple(found)

    def write(value: Any) -> bytes:
        values = get(value)
        row = rows.get(tuple(map(type, values))) or row_for(values)
        try:
            return b"".join(map(call, row, values))
        except (ValueError, TypeError, OverflowError, KeyError) as error:
            raise Unwritable(f"{cls.__name__}: {_culprit(names, row, values)}: {error}") from error

    return write


def _culprit(names: tuple[str, ...], row: tuple[Write, ...], values: tuple[Any, ...]) -> str:
    for name, write, value in zip(names, row, values, strict=True):
        try:
            write(value)
        except (ValueError, TypeError, OverflowError, KeyError):
            return f"{name} = {value!r:.200}"
    return "unknown field"
