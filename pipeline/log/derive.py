"""An Avro schema from a dataclass. Deterministic: the same class gives the same schema, whatever the process.

Event schemas are derived once and then fixed as files (schemas.py); the schema of a stage's state is derived anew in
each process, and its fingerprint tells whether a snapshot can be read.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections import deque
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from enum import StrEnum
from typing import Any

NAMESPACE = "tamis"
PLAIN: dict[type, str] = {bool: "boolean", int: "long", float: "double", str: "string", bytes: "bytes"}
SEQUENCES: tuple[type, ...] = (tuple, list, deque)
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Schema = Any
"""An Avro schema as `json` reads it: a name, a list (union) or a dict."""


def schema_of(cls: type[Any]) -> dict[str, Schema]:
    """The schema of a dataclass; TypeError names the field that Avro can't say."""
    made: dict[str, Schema] = _record(cls, set())
    return {"type": made["type"], "name": made["name"], "namespace": NAMESPACE, **made}


def stored_fields(cls: type[Any]) -> Iterator[tuple[Field[Any], Any]]:
    """Each field that is stored, with its resolved type. One marked `metadata={"derived": True}` is left out."""
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        if not field.metadata.get("derived"):
            yield field, hints[field.name]


def choices(kind: Any) -> tuple[Any, ...]:
    """The branches of a union in Avro's order, null first; empty if the type is not a union."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return ()
    branches = typing.get_args(kind)
    null = tuple(b for b in branches if b is type(None))
    return null + tuple(b for b in branches if b is not type(None))


def item_type(kind: Any) -> Any:
    """The type of a sequence's items; TypeError for a tuple of different things."""
    arguments = [a for a in typing.get_args(kind) if a is not Ellipsis]
    if not arguments or any(a != arguments[0] for a in arguments):
        raise TypeError(f"{kind}: expected one type for all items; use a dataclass for a fixed record")
    return arguments[0]


def symbol(member: StrEnum) -> str:
    """The Avro symbol of an enum's member: its value."""
    if not _SYMBOL.match(member.value):
        raise TypeError(f"{member!r}: expected letters, digits and _ only, since Avro enums take nothing else")
    return member.value


def _schema(kind: Any, seen: set[str], path: str) -> Schema:
    if kind in PLAIN:
        return PLAIN[kind]
    if kind in (None, type(None)):
        return "null"
    if branches := choices(kind):
        return [_schema(branch, seen, path) for branch in branches]
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, seen)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _enum(kind, seen)
    origin = typing.get_origin(kind)
    if origin in SEQUENCES:
        return {"type": "array", "items": _schema(item_type(kind), seen, path)}
    if origin is dict:
        return _map(kind, seen, path)
    raise TypeError(
        f"{path}: {kind} has no place in Avro; expected bool, int, float, str, bytes, a StrEnum, a dataclass, "
        "tuple, list, deque, dict or a union of these"
    )


def _map(kind: Any, seen: set[str], path: str) -> Schema:
    key, value = typing.get_args(kind)
    if key is str:
        return {"type": "map", "values": _schema(value, seen, path)}
    entry = [
        {"name": "key", "type": _schema(key, seen, path + "_key")},
        {"name": "value", "type": _schema(value, seen, path + "_value")},
    ]
    return {"type": "array", "items": {"type": "record", "name": path + "_entry", "fields": entry}}


def _enum(kind: type[StrEnum], seen: set[str]) -> Schema:
    if kind.__name__ in seen:
        return f"{NAMESPACE}.{kind.__name__}"
    seen.add(kind.__name__)
    return {"type": "enum", "name": kind.__name__, **_doc(kind), "symbols": [symbol(member) for member in kind]}


def _record(cls: type[Any], seen: set[str]) -> Schema:
    if cls.__name__ in seen:
        return f"{NAMESPACE}.{cls.__name__}"
    seen.add(cls.__name__)
    made = [_field(cls, field, kind, seen) for field, kind in stored_fields(cls)]
    return {"type": "record", "name": cls.__name__, **_doc(cls), "fields": made}


def _field(cls: type[Any], field: Field[Any], kind: Any, seen: set[str]) -> dict[str, Schema]:
    made = _schema(kind, seen, f"{cls.__name__}_{field.name}")
    if field.type == "Millis":
        made = {"type": "long", "logicalType": "timestamp-millis"}
    null_first = isinstance(made, list) and made[0] == "null"
    return {"name": field.name, "type": made, **({"default": None} if null_first else {})}


def _doc(cls: type[Any]) -> dict[str, str]:
    text = cls.__dict__.get("__doc__")
    if not text or text.startswith(f"{cls.__name__}("):  # dataclass writes that where there is none
        return {}
    return {"doc": inspect.cleandoc(text).replace("\n", " ")}
