"""What a family of vectors says of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

Case = Mapping[str, Any]
"""`name`, `input`, `expected` and perhaps `upstream_quirk`, `float_sensitive` …; "nan" and "inf" are floats already."""


class Refused(Exception):
    """The product refuses this input, with a clear reason: the counterpart of an error in the recorded code."""


@dataclass(frozen=True)
class NotCompared:
    """Stands in an answer for a part that belongs to the other system alone. Counted and printed."""

    why: str


@dataclass(frozen=True)
class Excluded:
    """Cases that are not asked: those for which `where` holds."""

    what: str
    where: Callable[[Case], bool]


@dataclass(frozen=True)
class Departure:
    """Cases in which the product means to answer otherwise than recorded (docs/compatibility.md); `expected` is that
    answer, as far as it is compared. `refused` among its keys means that the product refuses."""

    why: str
    where: Callable[[Case], bool]
    expected: Callable[[Case], Mapping[str, Any]] = lambda case: case["expected"]


@dataclass(frozen=True)
class Family:
    """`answer` asks the product and gives its answer in the recorded form. It may raise Refused, or give the reason of
    a refusal under the key `refused`. `read` finds the cases of a file; `follows_choice` names what a tie leaves open
    besides `kept`. A family whose answers need a comparison of their own has `judge` instead: whether it is right, and
    what was answered. Its cases are known by their input's `kind`, or the field that `told_by` names, being one of
    `kinds`. `tolerance`: where a file states none."""

    answer: Callable[[Case], Mapping[str, Any]] | None = None
    judge: Callable[[Case], tuple[bool, Any]] | None = None
    excluded: Sequence[Excluded] = ()
    departures: Sequence[Departure] = ()
    follows_choice: Sequence[str] = ("kept_rows", "metrics")
    read: Callable[[Mapping[str, Any]], list[Case]] = lambda document: document["cases"]
    kinds: frozenset[str] = frozenset()
    told_by: str = "kind"
    tolerance: Mapping[str, Any] = field(default_factory=dict)

    def fits(self, cases: Sequence[Any]) -> bool:
        """Whether all of them say that they are this family's."""
        asked = [case.get("input") if isinstance(case, Mapping) else None for case in cases]
        return bool(asked) and all(isinstance(one, Mapping) and one.get(self.told_by) in self.kinds for one in asked)


@dataclass(frozen=True)
class Vectors:
    """A file: its name, its cases and the tolerances that it states."""

    name: str
    cases: list[Case]
    tolerance: Mapping[str, Any]


def document_of(path: Path) -> Mapping[str, Any]:
    """What a file of vectors holds. ValueError if it is none."""
    document = _numbers(json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse))
    if not isinstance(document, dict):
        raise ValueError(f"holds a {type(document).__name__}; expected an object with `cases`")
    return document


def load(path: Path, document: Mapping[str, Any], family: Family) -> Vectors:
    """The cases of a document of a family's form."""
    try:
        cases = list(family.read(document))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"is not of the form of this family: {error!r}; see the vectors' README") from error
    if wrong := [number for number, case in enumerate(cases) if not isinstance(case, dict)]:
        raise ValueError(f"case {wrong[0]} is no object; expected `name`, `input`, `expected`")
    return Vectors(path.stem, cases, document.get("tolerance") or family.tolerance)


def tolerance_of(stated: Mapping[str, Any], field: str) -> tuple[float, float]:
    """(absolute, relative) for numbers under a field. A tolerance may be numbers or words such as `metrics abs 1e-9`;
    what is not stated is compared up to the rounding of a double."""
    for key, value in stated.items():
        if isinstance(value, Mapping) and field in re.split(r"[^\w]+", key):
            return float(value.get("abs", 0.0)), float(value.get("rel", 0.0))
        found = re.search(rf"\b{re.escape(field)} abs ([0-9.e+-]+)", value) if isinstance(value, str) else None
        if found:
            return float(found[1]), 0.0
    return 1e-12, 1e-12


def _numbers(value: Any) -> Any:
    match value:
        case "nan" | "inf" | "-inf":
            return float(value)
        case dict():
            return {key: _numbers(item) for key, item in value.items()}
        case list():
            return [_numbers(item) for item in value]
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON; the form is the string of it")
