"""The text that goes with a committed offset: `snap=…;policy=…;end=1;done=<base64>`, ASCII, at most 4,095 characters.

Kafka keeps it per partition and erases it with any commit that lacks it, so every commit repeats it. One character more
would abort the transaction.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

LIMIT: Final = 4095
MAX_DONE: Final = 2900 * 8
"""How far above its offset a consumer can name finished records: bits of the bitmap that always fit."""


@dataclass(frozen=True, slots=True)
class OffsetMetadata:
    """`snap`: offset of the newest snapshot in the stage's snapshots partition. `policy`: offset of the partition's
    last PolicyPublished. `end`: how many RunFinished have been handled. `done`: bitmap of finished records from the
    committed offset on. `extra`: any other pairs, for a stage of its own kind (the trainer)."""

    snap: int | None = None
    policy: int | None = None
    end: int = 0
    done: bytes = b""
    extra: tuple[tuple[str, str], ...] = ()

    def format(self) -> str:
        """The text form; ValueError if it is longer than Kafka takes."""
        pairs = [("snap", self.snap), ("policy", self.policy), ("end", self.end or None), *self.extra]
        if self.done:
            pairs.append(("done", base64.b64encode(self.done).decode()))
        text = ";".join(f"{name}={value}" for name, value in pairs if value is not None)
        if len(text) > LIMIT or not text.isascii():
            raise ValueError(f"offset metadata of {len(text)} characters: expected ASCII, at most {LIMIT}")
        return text


def parse_metadata(text: str | None) -> OffsetMetadata:
    """The metadata of a committed offset; empty for None and for no text. ValueError if it is something else's."""
    try:
        pairs = dict(part.split("=", 1) for part in text.split(";")) if text else {}
        return OffsetMetadata(
            snap=int(pairs["snap"]) if "snap" in pairs else None,
            policy=int(pairs["policy"]) if "policy" in pairs else None,
            end=int(pairs.get("end", "0")),
            done=base64.b64decode(pairs.get("done", ""), validate=True),
            extra=tuple((k, v) for k, v in pairs.items() if k not in ("snap", "policy", "end", "done")),
        )
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"offset metadata {text!r:.200}: expected snap=…;policy=…;done=…: {error}") from error


def pack_done(base: int, finished: Iterable[int]) -> bytes:
    """A bitmap of finished offsets: bit i of it, lowest first in each byte, is offset base + i. ValueError if one is
    below `base` or too far above it."""
    bits = 0
    for offset in finished:
        if not 0 <= offset - base < MAX_DONE:
            raise ValueError(f"finished offset {offset}: expected {base} to {base + MAX_DONE - 1}")
        bits |= 1 << (offset - base)
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def unpack_done(base: int, bitmap: bytes) -> set[int]:
    """The finished offsets that a bitmap names."""
    return {base + 8 * i + bit for i, byte in enumerate(bitmap) for bit in range(8) if byte >> bit & 1}
