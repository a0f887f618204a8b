"""How a family of vectors says where the product means to answer otherwise, or with other digits."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any

from ..family import Case, NotCompared


def refused(case: Case) -> Mapping[str, Any]:
    """What is expected where the product refuses."""
    return {"refused": True}


def roughly(got: list[float], recorded: list[float], absolute: float, why: str) -> Any:
    """`got`, or nothing more to compare if all of it is as near as that, where the file states no such tolerance."""
    near = len(got) == len(recorded) and all(
        isclose(g, r, rel_tol=0.0, abs_tol=absolute) for g, r in zip(got, recorded, strict=True)
    )
    return NotCompared(why) if near else got
