"""Events, states and outputs as plain JSON, without Avro: for Pythons that have nothing but their standard library."""

from __future__ import annotations

import base64
import dataclasses
import json
from enum import Enum
from typing import Any

from pipeline.domain import events, open_groups, run_state, vocabulary


def to_plain(value: Any) -> Any:
    """The value in lists, objects, texts and numbers; the order of a dict is kept."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Enum):
        return {"enum": [type(value).__name__, value.value]}
    if dataclasses.is_dataclass(value):
        fields = [to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {"record": [type(value).__name__, fields]}
    if isinstance(value, dict):
        return {"dict": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    return [to_plain(item) for item in value]


def from_plain(plain: Any) -> Any:
    """An event, or a part of one; its sequences are tuples."""
    if isinstance(plain, list):
        return tuple(map(from_plain, plain))
    if not isinstance(plain, dict):
        return plain
    [(kind, body)] = plain.items()
    match kind:
        case "bytes":
            return base64.b64decode(body)
        case "enum":
            return _named(body[0])(body[1])
        case "record":
            return _named(body[0])(*map(from_plain, body[1]))
        case "dict":
            return {from_plain(key): from_plain(item) for key, item in body}
    raise ValueError(f"{kind!r} is no kind of value")


def canonical(value: Any) -> str:
    """One text for equal values."""
    return json.dumps(to_plain(value), separators=(",", ":"))


def _named(name: str) -> Any:
    modules = (events, vocabulary, open_groups, run_state)
    return next(getattr(module, name) for module in modules if hasattr(module, name))
