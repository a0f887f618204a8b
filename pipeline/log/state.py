"""A stage's state as bytes, for snapshots: the same Avro as events, with a schema derived from the state's class.

The order of dicts survives. A field with `metadata={"derived": True}` (and `init=False`) isn't stored; the class builds
it again in `__post_init__`. Another shape of the state is another fingerprint: such a snapshot isn't read, and the
state is folded from the start.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from pipeline.log.codec import read_whole
from pipeline.log.compile import codec_of
from pipeline.log.derive import schema_of
from pipeline.log.schemas import avro_fingerprint

S = TypeVar("S")


class StateCodec(Generic[S]):
    """Encodes and decodes one class of state; `fingerprint` (8 bytes) names its shape."""

    def __init__(self, state_type: type[S]) -> None:
        self._name = state_type.__name__
        self.fingerprint = avro_fingerprint(schema_of(state_type))
        codec = codec_of(state_type)
        self._write, self._read = codec.writers[state_type], codec.read

    def encode(self, state: S) -> bytes:
        """The whole state; Unwritable names a field that can't be stored."""
        return self._write(state)

    def decode(self, encoded: bytes) -> S:
        """An equal state; raises Poison."""
        return read_whole(self._read, encoded, self._name)  # type: ignore[no-any-return]
