"""Readers and writers of dataclasses as straight-line Python: the source text is made from a class's field types and
compiled once, as dataclasses makes its methods. It comes from our own types, never from data.

A generated function does what is well-formed and short. Everything else it gives, from the start, to the composed one
(compile.py), which defines what is right and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any, Final

from pipeline.domain.frozen import twin_of
from pipeline.log.binary import PACK, PACK_SOME, UNPACK, VARINTS, Read, Write, length, read_long
from pipeline.log.derive import stored_fields
from pipeline.log.source import CodecOf, Lines, Reading, Writing

SHORT: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))
"""Integers by their one byte."""


def reader(cls: Any, codec_of: CodecOf, careful: Read, only: Collection[str] | None = None) -> Read:
    """A fast reader of a slotted class whose instances are their stored fields and nothing else. With `only`, other
    fields may be left unset, and nobody looks whether their bytes are right."""
    source = Reading(codec_of, new=object.__new__, cls=cls, careful=careful, long=read_long, length=length, SHORT=SHORT)
    frozen = cls.__dataclass_params__.frozen
    source.names |= {"blank": twin_of(cls) if frozen else cls, "unpack": UNPACK}
    body = ["begin = at", "made = new(blank)"]
    for floats, fields in _runs(cls):
        places = {f"made.{name}": kind for name, kind in fields.items()}
        if floats and (only is None or not fields.keys().isdisjoint(only)):
            body += source.doubles(places)
            continue
        for name, kind in fields.items():
            body += source.one(kind, f"made.{name}") if only is None or name in only else source.skip(kind)
    body += ["made.__class__ = cls"] if frozen else []
    read: Read = source.function("data, at", [*body, "return made, at"], "careful(data, begin)")
    return read


def writer(cls: type[Any], codec_of: CodecOf, careful: Write) -> Write:
    """A fast writer of a class's instances."""
    source = Writing(codec_of, careful=careful, V=VARINTS, join=b"".join, pack=PACK, pack_some=PACK_SOME)
    body, parts = Lines(), Lines()
    for floats, fields in _runs(cls):
        places = {f"f{len(parts)}_{index}": kind for index, kind in enumerate(fields.values())}
        body += [f"{place} = value.{name}" for place, name in zip(places, fields, strict=True)]
        for lines, written in [source.doubles(places)] if floats else [source.one(k, v) for v, k in places.items()]:
            body += lines
            parts += written
    write: Write = source.function("value", [*body, f"return join(({', '.join(parts)},))"], "careful(value)")
    return write


def _runs(cls: type[Any]) -> Iterator[tuple[bool, dict[str, Any]]]:
    """The fields by name, neighbours that are numbers together: these are packed by one call."""
    for floats, run in groupby(stored_fields(cls), lambda item: item[1] in (float, float | None)):
        fields = {field.name: kind for field, kind in run}
        yield floats and len(fields) > 1, fields
