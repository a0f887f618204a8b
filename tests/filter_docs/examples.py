"""Worked examples: what the product answers, and what the rule comes to, are what the page says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isclose
from typing import Any, get_args

from pydantic_core import PydanticUndefined

from .formula import value_of
from .page import Row, Section
from .product import seen_by_guard

Asked = Callable[[Row], Any]
TIMED = ("assembly.lease", "assembly.deadline", "starvation.no_progress")
"""Settings in milliseconds, which rows give in seconds."""


def disagreements(section: Section, fields: Mapping[str, Any], asked: Asked | None) -> Iterator[str]:
    """What the examples of a section say otherwise than product or rule, and what they leave out."""
    told = section.examples
    if section.rule is None:
        yield from _uncovered(section, fields)
    elif section.rule[0] in ("rejects when", "yes when") and len({_holds(row["outcome"]) for row in told}) < 2:
        yield f"{section.title}: no examples on both sides of its rule"
    if asked is None:
        return
    if not told:
        yield f"{section.title}: no examples"
    for row in told:
        try:
            yield from _disagrees(section, _filled(section, fields, row), asked)
        except Exception as error:
            yield f"{section.title}: {row}: {error!r}"


def _disagrees(section: Section, row: Row, asked: Asked) -> Iterator[str]:
    if not same(answer := asked(row), row["outcome"]):
        yield f"{section.title}: {row}: the product answers {answer!r}"
    rule = ("", row["rule"]) if "rule" in row else section.rule
    if rule and not follows(rule, row, section.title.startswith("strategy")):
        yield f"{section.title}: {row}: not by its rule {rule[1]}"


def same(one: Any, other: Any) -> bool:
    """Equal, numbers up to rounding."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return isclose(one, other, rel_tol=1e-12, abs_tol=1e-15)
    return bool(one == other)


def follows(rule: tuple[str, str], row: Row, ranks: bool) -> bool:
    """Whether the outcome of a row is what the rule comes to."""
    (verb, formula), outcome = rule, row["outcome"]

    def holds(**more: Any) -> Any:
        return value_of(formula, row | more)

    if verb in ("rejects when", "yes when"):
        return bool(holds()) is _holds(outcome)
    if verb == "keeps when" and ranks:
        return sorted(outcome) == sorted(score for score in row["scores"] if holds(score=score))
    if verb == "keeps when":
        return all(bool(holds(**names)) is kept for names, kept in seen_by_guard(row))
    if verb == "the fewest for which":
        reached = not outcome or holds(kept=outcome)
        return bool(reached) and not (outcome[1:] and holds(kept=outcome[:-1]))
    if ranks:
        return same(holds(), len(outcome))
    each = {"stds": "std", "proportions": "proportion"}
    for many, one in each.items():
        if many in row:
            last = 1 if many == "proportions" else 0  # the last domain has the remainder
            values = row[many][: len(row[many]) - last]
            return same([holds(**{one: value}) for value in values], outcome[: len(values)])
    return same(holds(), outcome)


def _holds(outcome: Any) -> bool:
    return outcome not in ("kept", "no")


def _filled(section: Section, fields: Mapping[str, Any], row: Row) -> Row:
    """A row with its section's type, and where a rule asks for them the defaults of what it leaves empty."""
    plain: Row = {"type": section.title.rpartition(": ")[2]}
    for path, field in fields.items() if section.rule else ():
        name = path.rpartition(".")[2]
        if name in row or field.is_required() or not (path in section.parameters or "strategy" in section.title):
            continue
        default = field.default_factory(row) if field.default is PydanticUndefined else field.default
        plain[name] = default / 1000 if path in TIMED else default
    return plain | row


def _uncovered(section: Section, fields: Mapping[str, Any]) -> Iterator[str]:
    """Values of a setting that neither an example nor the text mentions."""
    for path in section.parameters:
        for value in get_args(fields[path].annotation) if path in fields else ():
            name = path.rpartition(".")[2]
            shown = [row.get(name) for row in section.examples]
            if isinstance(value, str) and value not in shown and (section.examples or f"`{value}`" not in section.text):
                yield f"{section.title}: nothing about {path} {value}"
