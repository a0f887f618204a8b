"""Asks the product about every case of a file and says where it answers otherwise."""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from pipeline.config import ConfigError

from . import families
from .compare import Comparison
from .family import Case, Family, Refused, Vectors, document_of, load

SHOWN = 3


@dataclass
class Result:
    """How a file fared."""

    name: str
    passed: int = 0
    total: int = 0
    mismatches: list[tuple[Case, Any, Any]] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)
    departed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        """What a person reads."""
        yield f"{self.name}: {self.passed} of {self.total}"
        for title, counts in (
            ("excluded", self.excluded),
            ("answers otherwise on purpose", self.departed),
            ("part not compared", self.skipped),
        ):
            for why, count in sorted(counts.items()):
                yield f"  {title}: {count} × {why}"
        for case, expected, got in self.mismatches[:SHOWN]:
            yield f"  mismatch {case.get('name', case.get('id'))}"
            yield f"    input    {_short(case.get('input', case))}"
            yield f"    expected {_short(expected)}"
            yield f"    got      {_short(got)}"
        if len(self.mismatches) > SHOWN:
            yield f"  … and {len(self.mismatches) - SHOWN} more"


def known() -> dict[str, Family]:
    """Every family by name, from the tables `FAMILIES` of the modules in `families`."""
    modules = [import_module(f"{families.__name__}.{m.name}") for m in pkgutil.iter_modules(families.__path__)]
    return {name: family for module in modules for name, family in getattr(module, "FAMILIES", {}).items()}


def family_of(document: Mapping[str, Any], stem: str) -> str:
    """The family that a document names under `family`; or that alone has such kinds of cases; or else the one with
    which the file's name begins. ValueError if there is none."""
    families, cases = known(), document.get("cases")
    named = document.get("family")
    if named is not None and named not in families:
        raise ValueError(f"family {named!r} is unknown; known are {', '.join(sorted(families))}")
    fitting = [name for name, family in families.items() if isinstance(cases, list) and family.fits(cases)]
    by_name = max([name for name in families if stem.startswith(name)], key=len, default=None)
    found = named or (fitting[0] if len(fitting) == 1 else by_name)
    if found is None:
        raise ValueError(
            "neither `family` in it, nor the kinds of its cases, nor its name tells the family; "
            f"give --family, one of {', '.join(sorted(families))}"
        )
    return str(found)


def run_file(path: Path, name: str | None = None) -> Result:
    """All cases of a file, as the family `name` or the one that it tells itself."""
    document = document_of(path)
    family = known()[name or family_of(document, path.stem)]
    return run(load(path, document, family), family)


def run(vectors: Vectors, family: Family) -> Result:
    """All cases."""
    result = Result(vectors.name)
    for case in vectors.cases:
        try:
            if (left_out := next((e.what for e in family.excluded if e.where(case)), None)) is not None:
                result.excluded[left_out] += 1
                continue
            departure = next((d for d in family.departures if d.where(case)), None)
            expected = departure.expected(case) if departure else case.get("expected", {})
        except Exception as error:  # whatever a case of another form makes of a predicate
            result.total += 1
            result.mismatches.append((case, case.get("expected"), f"can't be read: {type(error).__name__}: {error}"))
            continue
        result.total += 1
        right, got, skipped = _judged(family, case, expected, vectors.tolerance)
        if right:
            result.passed += 1
            result.skipped.update(skipped)
            result.departed.update([departure.why] if departure else [])
        else:
            result.mismatches.append((case, expected, got))
    return result


def _judged(family: Family, case: Case, expected: Mapping[str, Any], tolerance: Any) -> tuple[bool, Any, list[str]]:
    """Whether the product is right, what it answered, and what was not compared."""
    try:
        if family.judge is not None:
            return *family.judge(case), []
        assert family.answer is not None
        got = family.answer(case)
    except (Refused, ConfigError) as refusal:
        got = {"refused": str(refusal)}
    except Exception as error:
        return False, f"raised {type(error).__name__}: {error}", []
    comparison = Comparison(tolerance, tuple(family.follows_choice))
    return comparison.agrees(case, expected, got), got, comparison.skipped


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]} …"
