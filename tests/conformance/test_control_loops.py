"""The families of other systems' control loops are compared at all: a product that decides otherwise fails on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.domain.assembly import Assembler
from pipeline.domain.batching import Forming
from pipeline.domain.filters import guard

from .__main__ import COMMITTED
from .runner import run_file

FILES = ("roll_agentic_group_filter", "redundancy", "async_buffer")
Change = Callable[[pytest.MonkeyPatch], None]


def a_staleness_one_too_strict(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Forming, "_is_stale", lambda self, group, follows: follows - group.oldest_version >= self.rules.max_staleness
    )


def a_staleness_one_too_lenient(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Forming, "_is_stale", lambda self, group, follows: follows - group.oldest_version > self.rules.max_staleness + 1
    )


def the_newest_taken_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Forming, "_admit", lambda self, state, group, scores: state.pools[group.domain].insert(0, group))


def a_guard_one_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(guard.GUARDS, "roll_ratio", lambda args: lambda state: (state.filtered + 2) / (state.total + 1) > 0.5)


def a_guard_that_keeps_a_half(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(
        guard.GUARDS, "roll_ratio", lambda args: lambda state: (state.filtered + 1) / (state.total + 1) >= 0.5
    )


def failures_asked_for_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Assembler, "_takes_failures", lambda self, group, event: False)


ALL = {"queue", "roll_replay_buffer", "async_buffer"}
MUTANTS: list[tuple[Change, set[str]]] = [
    (a_staleness_one_too_strict, ALL),
    (a_staleness_one_too_lenient, ALL),
    (the_newest_taken_first, ALL),
    (a_guard_one_too_early, {"queue"}),
    (a_guard_that_keeps_a_half, {"queue"}),
    (failures_asked_for_again, {"queue"}),
]


@pytest.mark.parametrize(("change", "kinds"), MUTANTS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_product_that_decides_otherwise_is_told(
    monkeypatch: pytest.MonkeyPatch, change: Change, kinds: set[str]
) -> None:
    change(monkeypatch)
    told = set()
    for name in FILES:
        told |= {case["input"].get("kind", name) for case, _, _ in run_file(COMMITTED / f"{name}.json").mismatches}
    assert kinds <= told
