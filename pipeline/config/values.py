"""The kinds of values that a configuration holds. Strict: a bool is no number, and text is no number either."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pipeline.config.errors import nearest, shown
from pipeline.domain.ids import RUN_RULE, is_run_name

T = TypeVar("T")

FACTORY = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z", re.ASCII)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|d)\Z")
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kmgt]?)(i?)b\Z", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Section(BaseModel):
    """A part of the configuration. Unknown keys are errors; a key that is null has its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = {key: nearest(str(key), known) for key in data if key not in known}
        if unknown:
            raise PydanticCustomError("unknown_key", "unknown keys {unknown}", {"unknown": unknown})
        return {key: value for key, value in data.items() if value is not None}


def _milliseconds(value: Any) -> int:
    if isinstance(value, str) and (found := _DURATION.match(value)):
        return round(float(found[1]) * _MS[found[2]])
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2**53:
        return round(value * 1000)
    raise PydanticCustomError(
        "bad_duration", "{value} is no duration; expected seconds, or text such as 90s, 5m, 2h", {"value": shown(value)}
    )


def _bytes(value: Any) -> int:
    if isinstance(value, str) and (found := _SIZE.match(value)):
        base = 1024.0 if found[3] else 1000.0
        return round(float(found[1]) * math.pow(base, _POWER[found[2].lower()]))
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise PydanticCustomError(
        "bad_size",
        "{value} is no size; expected bytes, or text such as 64MB (10^6) or 64MiB (2^20)",
        {"value": shown(value)},
    )


def _finite(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        for item in value.values():
            _finite(item)
    elif isinstance(value, list):
        for item in value:
            _finite(item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("not_finite", "{value} is in it; expected finite numbers", {"value": str(value)})
    return value


def _factory(value: str) -> str:
    if not FACTORY.match(value):
        message = "{value} is no factory; expected package.module:attribute"
        raise PydanticCustomError("bad_factory", message, {"value": shown(value)})
    return value


def _run_name(value: str) -> str:
    if not is_run_name(value):
        message = "{value} is no name of a run; expected {rule}"
        raise PydanticCustomError("bad_run_name", message, {"value": shown(value), "rule": RUN_RULE})
    return value


def _name(value: str) -> str:
    if not _NAME.match(value):
        message = "{value} is no name; expected 1 to 63 of A-Z, a-z, 0-9, _ and -, the first a letter or digit"
        raise PydanticCustomError("bad_name", message, {"value": shown(value)})
    return value


def _regex(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise PydanticCustomError("bad_pattern", "{why}; expected a regular expression", {"why": str(error)}) from error
    return value


Milliseconds = Annotated[int, BeforeValidator(_milliseconds), Field(gt=0, le=2**53)]
"""Written in seconds, or with a unit."""
MillisecondsOrOff = Annotated[int, BeforeValidator(_milliseconds), Field(ge=0, le=2**53)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(gt=0, le=2**53)]
Name = Annotated[str, AfterValidator(_name)]
RunName = Annotated[str, AfterValidator(_run_name)]
Factory = Annotated[str, AfterValidator(_factory)]
"""`package.module:attribute`"""
Metric = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""`reward`, `raw`, or the name of a component."""
Pattern = Annotated[str, AfterValidator(_regex)]
Options = Annotated[dict[str, JsonValue], AfterValidator(_finite)]
Many = Annotated[tuple[T, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


class Plugin(Section):
    """Something that a factory builds: it is called as `factory(seed, options)`."""

    factory: Factory
    options: Options = {}
