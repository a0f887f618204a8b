"""One value of every event, made from its types alone: `full` has everything, `bare` nothing that can be left out."""

from __future__ import annotations

import typing
from dataclasses import is_dataclass
from enum import StrEnum
from itertools import count
from typing import Any

from pipeline.log.derive import SEQUENCES, choices, item_type, stored_fields


def full(cls: type[Any]) -> Any:
    """Every field filled, no two alike."""
    numbers = count(1)
    return _record(cls, numbers, bare=False)


def bare(cls: type[Any]) -> Any:
    """None, empty, false and the most negative numbers."""
    return _record(cls, count(1), bare=True)


def _record(cls: type[Any], numbers: Any, bare: bool) -> Any:
    return cls(**{field.name: _value(kind, field.name, numbers, bare) for field, kind in stored_fields(cls)})


def _value(kind: Any, name: str, numbers: Any, bare: bool) -> Any:
    if branches := choices(kind):
        return None if bare else _value(branches[-1], name, numbers, bare)
    if is_dataclass(kind):
        return _record(typing.cast(type[Any], kind), numbers, bare)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return list(kind)[0 if bare else -1]
    if typing.get_origin(kind) in SEQUENCES:
        item = item_type(kind)
        return () if bare else (_value(item, name, numbers, bare), _value(item, name, numbers, bare))
    if typing.get_origin(kind) is dict:
        value = typing.get_args(kind)[1]
        return (
            {}
            if bare
            else {f"{name}-b": _value(value, name, numbers, bare), f"{name}-a": _value(value, name, numbers, bare)}
        )
    n = next(numbers)
    plain: dict[Any, Any] = {
        bool: not bare,
        int: -(2**63) if bare else 10 ** (n % 19),
        float: 0.0 if bare else 0.1 + n,
        str: "" if bare else f"{name} {n} é\0",
        bytes: b"" if bare else bytes([0, 255, n % 256]),
    }
    return plain[kind]
