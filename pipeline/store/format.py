"""The bytes of one payload: what was sampled for one response, in a form that needs no parsing.

    header  48 bytes, little-endian
             0  magic `TMIS`    4  CRC-32 of the head's bytes from 8 on
             8  format version  9  flags  10  dtype codes, one per array  14  two zero bytes  16  CRC-32 of the rest
            20  seven sizes in bytes, uint32: metadata, text, prompt_ids, response_ids, logprobs, loss_mask, spans
    head    the header, the task's metadata, the text: all that a scorer needs, by GETRANGE 0 head_bytes-1
    rest    the four arrays and the spans in the order of their sizes, each at a multiple of 8, zeros between them

Every byte is under a checksum. Offsets aren't stored, since they follow from the sizes. Lone surrogates, which
UTF-8 has no bytes for, are written into the text as `backslashreplace` does, and a flag says so.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from pipeline.store.errors import PayloadDamaged

Buffer = bytes | bytearray | memoryview
Span = tuple[int, int, int]

MAGIC = b"TMIS"
VERSION = 1
TEXT_ESCAPED, NO_LOGPROBS = 1, 2

_START = struct.Struct("<4sI")
_HEADER = struct.Struct("<4sIBB4s2xI7I")
_FIELDS = struct.Struct("<BB4s2xI7I")
_SPAN = struct.Struct("<3q")
HEADER_BYTES = _HEADER.size
_ZEROS = tuple(bytes(n) for n in range(8))

_ID_BYTES = {"int32": 4, "int64": 8}
_DTYPES = ("int32", "int64", "float32", "uint8")
_CODES = {
    (prompt, response, "float32", "uint8"): bytes(map(_DTYPES.index, (prompt, response, "float32", "uint8")))
    for prompt in _ID_BYTES
    for response in _ID_BYTES
}
_DTYPES_OF = {codes: dtypes for dtypes, codes in _CODES.items()}


class Array(NamedTuple):
    """A flat array. `dtype` is int32, int64, float32 or uint8; `data` are its items, raw and little-endian."""

    dtype: str
    data: Buffer


_NO_FLOATS = Array("float32", b"")


@dataclass(frozen=True, slots=True)
class Payload:
    """One response with what trains on it; T is its number of tokens.

    `prompt_ids` (any length) and `response_ids` (T) are int32 or int64, `logprobs` (T) float32, `loss_mask` (T) uint8.
    `logprobs` is None when the engine gave none; a NaN in it is kept bit for bit. `version_spans` says which policy
    version sampled the tokens from start to before end, as (start, end, version). `text_escaped`: see the format.
    """

    metadata: bytes
    text: str
    prompt_ids: Array
    response_ids: Array
    logprobs: Array | None
    loss_mask: Array
    version_spans: tuple[Span, ...]
    text_escaped: bool = False


class Head(NamedTuple):
    """What a scorer needs of a payload."""

    metadata: bytes
    text: str
    text_escaped: bool


def encode(payload: Payload) -> tuple[bytes, int]:
    """The value to store, and `head_bytes`, the length of its head.

    Raises ValueError for a dtype that an array can't have, and for logprobs or a loss mask not as long as the response.
    """
    text, flags = _text_bytes(payload)
    metadata = payload.metadata
    codes, prompt, response, logprobs, mask = _arrays(payload)
    spans = b"".join([_SPAN.pack(*span) for span in payload.version_spans])
    if payload.logprobs is None:
        flags |= NO_LOGPROBS
    head_bytes = HEADER_BYTES + len(metadata) + len(text)
    p, r, q, m = len(prompt), len(response), len(logprobs), len(mask)
    gaps = _ZEROS[-head_bytes % 8], _ZEROS[-p % 8], _ZEROS[-r % 8], _ZEROS[-q % 8], _ZEROS[-m % 8]
    rest = b"".join((gaps[0], prompt, gaps[1], response, gaps[2], logprobs, gaps[3], mask, gaps[4], spans))
    sizes = len(metadata), len(text), p, r, q, m, len(spans)
    head = _FIELDS.pack(VERSION, flags, codes, crc32(rest), *sizes) + metadata + text
    return b"".join((_START.pack(MAGIC, crc32(head)), head, rest)), head_bytes


def decode(value: Buffer) -> Payload:
    """The payload in `value`; its arrays are views of `value`, not copies. Raises PayloadDamaged."""
    view = memoryview(value)
    head, head_bytes, flags, codes, checksum, (p, r, q, m, s) = _read_head(view)
    a = head_bytes + -head_bytes % 8
    b = a + p + -p % 8
    c = b + r + -r % 8
    d = c + q + -q % 8
    e = d + m + -m % 8
    if len(view) != e + s:
        raise PayloadDamaged("length", len(view), e + s)
    if crc32(view[head_bytes:]) != checksum:
        raise PayloadDamaged("checksum of the arrays", crc32(view[head_bytes:]), checksum)
    dtypes = _DTYPES_OF[codes]
    return Payload(
        head.metadata,
        head.text,
        Array(dtypes[0], view[a : a + p]),
        Array(dtypes[1], view[b : b + r]),
        None if flags & NO_LOGPROBS else Array(dtypes[2], view[c : c + q]),
        Array(dtypes[3], view[d : d + m]),
        tuple(_SPAN.iter_unpack(view[e:])),
        head.text_escaped,
    )


def decode_head(head: Buffer) -> Head:
    """What a scorer needs, from a value's first `head_bytes` bytes, or more of it. Raises PayloadDamaged."""
    return _read_head(memoryview(head))[0]


def _read_head(view: memoryview) -> tuple[Head, int, int, bytes, int, list[int]]:
    """The head, its length; flags, dtype codes, checksum and sizes of the rest."""
    if len(view) < HEADER_BYTES:
        raise PayloadDamaged("length", len(view), f"at least {HEADER_BYTES}, the header")
    magic, head_checksum, version, flags, codes, checksum, metadata, text, *sizes = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise PayloadDamaged("magic", magic, MAGIC)
    if version != VERSION:
        raise PayloadDamaged("format version", version, VERSION)
    text_at = HEADER_BYTES + metadata
    end = text_at + text
    if len(view) < end:
        raise PayloadDamaged("length", len(view), f"at least {end}, the head")
    if crc32(view[_START.size : end]) != head_checksum:
        raise PayloadDamaged("checksum of the head", crc32(view[_START.size : end]), head_checksum)
    if codes not in _DTYPES_OF:
        raise PayloadDamaged("dtype codes", codes, " or ".join(map(repr, _DTYPES_OF)))
    head = Head(bytes(view[HEADER_BYTES:text_at]), str(view[text_at:end], "utf-8"), bool(flags & TEXT_ESCAPED))
    return head, end, flags, codes, checksum, sizes


def _text_bytes(payload: Payload) -> tuple[bytes, int]:
    """The text in UTF-8, and the flag to set if part of it is escaped."""
    try:
        return payload.text.encode(), TEXT_ESCAPED if payload.text_escaped else 0
    except UnicodeEncodeError:
        return payload.text.encode(errors="backslashreplace"), TEXT_ESCAPED


def _arrays(payload: Payload) -> tuple[bytes, Buffer, Buffer, Buffer, Buffer]:
    """The dtype codes, then the bytes of prompt_ids, response_ids, logprobs and loss_mask."""
    p_dtype, prompt = payload.prompt_ids
    r_dtype, response = payload.response_ids
    q_dtype, logprobs = payload.logprobs or _NO_FLOATS
    m_dtype, mask = payload.loss_mask
    codes = _CODES.get((p_dtype, r_dtype, q_dtype, m_dtype))
    if codes is None:
        raise ValueError(
            f"prompt_ids, response_ids, logprobs and loss_mask have dtypes {p_dtype}, {r_dtype}, {q_dtype}, {m_dtype}; "
            "expected int32 or int64 for ids, float32, uint8: convert them first"
        )
    if not type(prompt) is type(response) is type(logprobs) is type(mask) is bytes:
        prompt, response, logprobs, mask = map(_flat, (prompt, response, logprobs, mask))
    if len(prompt) % _ID_BYTES[p_dtype]:
        raise ValueError(f"prompt_ids has {len(prompt)} bytes, expected a multiple of {_ID_BYTES[p_dtype]}")
    if len(response) != len(mask) * _ID_BYTES[r_dtype]:
        tokens = len(response) / _ID_BYTES[r_dtype]
        raise ValueError(f"loss_mask has {len(mask)} items, response_ids {tokens:g}; expected equal lengths")
    if len(logprobs) != len(mask) * 4 and payload.logprobs is not None:
        raise ValueError(f"logprobs has {len(logprobs) / 4:g} items, response_ids {len(mask)}; expected equal lengths")
    return codes, prompt, response, logprobs, mask


def _flat(data: Buffer) -> Buffer:
    """`data` with its length in bytes, whatever its items are."""
    view = memoryview(data)
    return view.cast("B") if view.nbytes else b""
