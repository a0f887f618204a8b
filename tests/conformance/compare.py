"""Whether an answer is what was recorded, by the rules of the vectors' form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose, isnan
from typing import Any

from .family import Case, NotCompared, tolerance_of

TIES = ("tie_must_keep", "tie_pool", "tie_take")
RESULTS = "results"
"""Answers op by op: what was not recorded of an op must not be answered."""
ALTERNATIVES = ("float64", "exact")


class Comparison:
    """Compares one answer; `skipped` collects what it holds of NotCompared."""

    def __init__(self, stated: Mapping[str, Any], follows_choice: tuple[str, ...] = ()) -> None:
        self.stated = stated
        self.follows_choice = follows_choice
        self.skipped: list[str] = []

    def agrees(self, case: Case, expected: Mapping[str, Any], got: Mapping[str, Any]) -> bool:
        """Whether one of the defensible answers is given; an error may have any clear refusal as its counterpart."""
        if "error" in expected and len(expected) == 1:
            return bool(got.get("refused"))
        if "refused" in got and "refused" not in expected and not set(expected) & set(got):
            return False
        either = unsettled(case, expected)
        return any(self._same_answer(one, got, either) for one in defensible(case, expected))

    def _same_answer(self, expected: Mapping[str, Any], got: Mapping[str, Any], either: bool) -> bool:
        tie = "tie_pool" in expected
        for key, value in expected.items():
            if key in TIES or (tie and key in self.follows_choice):
                continue
            if key == "refused":
                same = bool(got.get("refused"))
            elif key not in got:
                return False
            elif tie and key == "kept":
                same = _tie(expected, got["kept"])
            elif either and _decides(value):
                same = _same_shape(value, got[key])
            else:
                same = self.same(value, got[key], key)
            if not same:
                return False
        return True

    def same(self, expected: Any, got: Any, field: str) -> bool:
        """Equal, numbers up to the field's tolerance, and NaN as NaN."""
        match expected, got:
            case _, NotCompared(why=why):
                self.skipped.append(why)
                return True
            case (bool(), _) | (_, bool()) | (None, _) | (_, None) | (str(), _):
                return bool(type(expected) is type(got) and expected == got)
            case ((int() | float()), (int() | float())):
                return _close(expected, got, tolerance_of(self.stated, field))
            case Mapping(), Mapping():
                if field == RESULTS and any(
                    k not in expected and not isinstance(v, NotCompared) for k, v in got.items()
                ):
                    return False
                return all(
                    k in got and self.same(v, got[k], _named(self.stated, k, field)) for k, v in expected.items()
                )
            case list(), (list() | tuple()):
                return len(expected) == len(got) and all(
                    self.same(e, g, field) for e, g in zip(expected, got, strict=True)
                )
        return False


def defensible(case: Case, expected: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The recorded answer; where rounding decides, also the one that another precision gives."""
    plain = {k: v for k, v in expected.items() if not k.endswith("_float64")}
    yield plain
    if case.get("float_sensitive"):
        for name in ALTERNATIVES:
            if f"expected_{name}" in case:
                yield {**plain, **case[f"expected_{name}"]}
    inside = {k.removesuffix("_float64"): v for k, v in expected.items() if k.endswith("_float64")}
    if inside and (case.get("float_sensitive") or case.get("weight_float_sensitive")):
        yield {**plain, **inside}


def unsettled(case: Case, expected: Mapping[str, Any]) -> bool:
    """Whether rounding decides and no other answer is recorded: then either decision is right."""
    told = any(f"expected_{name}" in case for name in ALTERNATIVES) or any(k.endswith("_float64") for k in expected)
    return bool(case.get("float_sensitive") or case.get("float_noise_scores")) and not told


def _decides(value: Any) -> bool:
    """A decision (yes or no, indices, a mask), not a measurement."""
    return isinstance(value, bool | int) or (isinstance(value, list) and all(map(_decides, value)))


def _same_shape(expected: Any, got: Any) -> bool:
    return isinstance(got, list | tuple) if isinstance(expected, list) else type(expected) is type(got)


def _tie(expected: Mapping[str, Any], kept: Any) -> bool:
    must, pool, chosen = set(expected["tie_must_keep"]), set(expected["tie_pool"]), set(kept)
    return must <= chosen <= must | pool and len(chosen & pool - must) == expected["tie_take"]


def _close(expected: float, got: float, tolerance: tuple[float, float]) -> bool:
    if isnan(expected) or isnan(got):
        return isnan(expected) and isnan(got)
    absolute, relative = tolerance
    return expected == got or isclose(expected, got, rel_tol=relative, abs_tol=absolute)


def _named(stated: Mapping[str, Any], key: str, field: str) -> str:
    """A nested value has the tolerance of its own name if there is one, else that of what it is in."""
    return key if tolerance_of(stated, key) != tolerance_of({}, key) else field
