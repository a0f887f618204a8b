"""Avro's binary form, written and read straight from and to Python values: each type is a few small functions.

It is strict where a general library can't be: a value of another type than the field's isn't written, and what can't be
read has a reason. Reading allocates no more than the bytes that are there, whatever length they claim.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from pipeline.domain.vocabulary import DeadLetterReason

Write = Callable[[Any], bytes]
Read = Callable[[bytes, int], tuple[Any, int]]

MISS: Final = object()
PACK: Final = struct.Struct("<d").pack
UNPACK: Final = struct.Struct("<d").unpack_from
PACK_SOME: Final = struct.Struct("<Bd").pack


class Malformed(Exception):
    """Bytes that aren't what their schema says; `field` is the way to the field, outermost first."""

    def __init__(self, reason: DeadLetterReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.field: tuple[str, ...] = ()


class Unwritable(TypeError):
    """A value that its field can't hold."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How a type is written and read. `writers` go by the type of the value; `short` gives the value for a first byte
    that is the whole of it, else MISS."""

    writers: dict[type, Write]
    read: Read
    short: tuple[Any, ...] = (MISS,) * 256

    def writer_for(self, kind: type) -> Write:
        """The writer for values of this type, of a subclass too (but True is no number)."""
        for base in (bool,) if kind is bool else kind.__mro__:
            if base in self.writers:
                return self.writers[base]
        raise Unwritable(f"{kind.__name__} is not {' or '.join(sorted(t.__name__ for t in self.writers))}")


def shorts(values: dict[int, Any]) -> tuple[Any, ...]:
    """A `Codec.short` from the values that one byte can say."""
    return tuple(values.get(byte, MISS) for byte in range(256))


@lru_cache(maxsize=1 << 16)
def _long_varint(value: int) -> bytes:
    if not -(1 << 63) <= value < 1 << 63:
        raise Unwritable(f"{value} is not within 64 bits")
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Varints(dict[int, bytes]):
    def __missing__(self, value: int) -> bytes:
        return _long_varint(int(value))


VARINTS: Final = _Varints((n, _long_varint(n)) for n in range(-64, 8192))
"""The bytes of an integer."""


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits."""
    byte = data[at]
    at += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
    if value >> 64:
        raise Malformed(DeadLetterReason.WRONG_TYPE, "an integer of more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def _write_str(text: str) -> bytes:
    # Half a character has no bytes in UTF-8. Foreign text is escaped where it comes in (domain/told.py); one that
    # slips through is escaped here, the same way each time, since a stage that fails on it would for ever.
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = text.encode(errors="backslashreplace")
    return VARINTS[len(encoded)] + encoded


def _write_bytes(value: bytes) -> bytes:
    return VARINTS[len(value)] + value


def length(data: bytes, at: int) -> tuple[int, int]:
    """Where text or bytes begin and end."""
    size, at = read_long(data, at)
    if size < 0:
        raise Malformed(DeadLetterReason.NEGATIVE_LENGTH, f"a length of {size}")
    return at, at + size


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    start, end = length(data, at)
    return data[start:end], end


def _read_str(data: bytes, at: int) -> tuple[str, int]:
    byte = data[at]
    start, end = length(data, at) if byte & 129 else (at + 1, at + 1 + (byte >> 1))
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError as error:
        if end > len(data):
            raise IndexError from error
        raise Malformed(DeadLetterReason.BAD_TEXT, f"text that is not UTF-8: {error}") from error


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    return UNPACK(data, at)[0], at + 8


def _no_boolean(data: bytes, at: int) -> tuple[bool, int]:
    raise Malformed(DeadLetterReason.WRONG_TYPE, f"{data[at]} where 0 or 1 is expected")


SCALARS: Final[dict[type, Codec]] = {
    int: Codec({int: VARINTS.__getitem__}, read_long, shorts({b: (b >> 1) ^ -(b & 1) for b in range(128)})),
    bool: Codec({bool: {False: b"\0", True: b"\1"}.__getitem__}, _no_boolean, shorts({0: False, 1: True})),
    float: Codec({float: PACK, int: PACK}, _read_double),
    str: Codec({str: _write_str}, _read_str, shorts({0: ""})),
    bytes: Codec({bytes: _write_bytes}, _read_bytes, shorts({0: b""})),
    type(None): Codec({type(None): {None: b""}.__getitem__}, lambda data, at: (None, at)),
}


def union(branches: tuple[Codec, ...]) -> Codec:
    """One of several types; null, if it is there, comes first."""
    writers: dict[type, Write] = {}
    short: dict[int, Any] = {}
    for index, branch in enumerate(branches):
        for kind, write in branch.writers.items():
            writers.setdefault(kind, _branch(index, kind, write))
        if type(None) in branch.writers:
            short[2 * index] = None
    readers = {2 * index: branch.read for index, branch in enumerate(branches)}

    def read(data: bytes, at: int) -> tuple[Any, int]:
        chosen = readers.get(data[at])
        if chosen is None:
            raise Malformed(DeadLetterReason.WRONG_TYPE, f"branch {data[at] >> 1} of a union of {len(branches)}")
        return chosen(data, at + 1)

    return Codec(writers, read, shorts(short))


def _branch(index: int, kind: type, write: Write) -> Write:
    prefix = VARINTS[index]
    if kind is type(None):
        return {None: prefix}.__getitem__
    if write is PACK:
        return partial(PACK_SOME, 2 * index)
    return lambda value: prefix + write(value)
