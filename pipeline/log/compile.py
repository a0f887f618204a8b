"""Codecs for the types that events and states are made of: dataclasses, enums, sequences, maps. They are composed of
functions for their parts; these define what is right and name what is wrong. Dataclasses get faster ones on top
(generate.py).
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable, Collection
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from pipeline.domain.vocabulary import DeadLetterReason
from pipeline.log.binary import (
    MISS,
    SCALARS,
    VARINTS,
    Codec,
    Malformed,
    Read,
    Unwritable,
    Write,
    read_long,
    shorts,
    union,
)
from pipeline.log.derive import SEQUENCES, choices, item_type, stored_fields
from pipeline.log.generate import reader, writer


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


def composed(cls: type[Any]) -> Codec:
    """A dataclass as the sum of its fields."""
    names = tuple(field.name for field, _ in stored_fields(cls))
    codecs = tuple(codec_of(kind) for _, kind in stored_fields(cls))
    make = _by_name(cls, names) if hasattr(cls, "__post_init__") else cls
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


def _record(cls: type[Any]) -> Codec:
    made = composed(cls)
    plain = "__slots__" in cls.__dict__ and not hasattr(cls, "__post_init__")
    read = reader(cls, codec_of, made.read) if plain else made.read
    return Codec({cls: writer(cls, codec_of, made.writers[cls])}, read)


def part_reader(cls: type[Any], only: Collection[str]) -> Read:
    """A reader of a tuple of these, each with the fields in `only`; others may be unset."""
    return _sequence(tuple, Codec({}, reader(cls, codec_of, composed(cls).read, only))).read


def _inside(names: tuple[str, ...], values: list[Any], error: Malformed) -> Malformed:
    error.field = (names[len(values)], *error.field)
    return error


def _by_name(cls: type[Any], names: tuple[str, ...]) -> Callable[..., Any]:
    return lambda *values: cls(**dict(zip(names, values, strict=True)))


def _record_writer(cls: type[Any], names: tuple[str, ...], codecs: tuple[Codec, ...]) -> Write:
    def write(value: Any) -> bytes:
        parts = []
        for name, codec in zip(names, codecs, strict=True):
            part = getattr(value, name)
            try:
                parts.append(codec.writer_for(type(part))(part))
            except (ValueError, TypeError, OverflowError, KeyError) as error:
                raise Unwritable(f"{cls.__name__}.{name} = {part!r:.200}: {error}") from error
        return b"".join(parts)

    return write
