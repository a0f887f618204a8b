"""A user's own filter or selector decides, or its policy does, and it ends nothing; what is told can be written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pipeline.domain import events as e
from pipeline.domain.filters.custom import Opinion
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import DomainRules, FilterRule, SelectionSettings
from pipeline.domain.told import MOST, kind, shown, told
from pipeline.domain.vocabulary import Reason
from pipeline.domain.window_batching import batcher
from pipeline.log.codec import decode, encode
from tests.bad_code import CANCELLED, ERRORS, ESCAPED, HALF, HUGE, HUGER, Shy, raising, returning
from tests.domain.given import MEMBERS, Feed, accepted, assembled, member, only, rules

RAISED = [*ERRORS.values(), CANCELLED]
POLICIES = ("reject", "keep", "raise")


def filtered(judge: Callable[..., Any], on_error: str = "reject") -> list[e.Event]:
    """What the filter stage writes of a group, as it is read again."""
    rule = FilterRule("custom", {"factory": "x:y", "on_error": on_error})
    stage = Filter(replace(rules(), domains=(DomainRules("maths", 1, (rule,), "hash"),)), MEMBERS, lambda _: judge)
    return [decode(encode(event)) for event in Feed(stage)(assembled("0@0", [member(0, 1.0), member(1, 0.0)], 2))]


def check_policy(written: list[e.Event], on_error: str, told: str) -> None:
    """That these are what the policy says about a filter which did that."""
    first, *rest = written
    if on_error == "keep":
        assert isinstance(first, e.GroupAccepted) and first.measurements == {"filter_errors": 1.0}
    else:
        assert isinstance(first, e.GroupRejected) and first.reason is Reason.FILTER_ERROR
        assert (first.detail or "").startswith(f"x:y: {told}")
    assert [type(event) for event in rest] == ([e.StageFailed] if on_error == "raise" else [])


@pytest.mark.parametrize("on_error", POLICIES)
@pytest.mark.parametrize(("error", "told"), RAISED, ids=[told[:20] for _, told in RAISED])
def test_a_filter_that_raises_whatever_it_is_is_decided_by_its_policy(error: BaseException, told: str, on_error: str):
    check_policy(filtered(raising(error), on_error), on_error, told)


BAD_OPINIONS: list[tuple[Any, str]] = [
    (None, "TypeError: answered NoneType; expected a bool or an Opinion"),
    (1, "TypeError: answered int"),
    (Shy(), "TypeError: answered Shy"),
    (np.array([True, False]), "TypeError: answered ndarray"),
    (Opinion(None), "TypeError: answered an Opinion whose keep is None; expected a bool"),  # type: ignore[arg-type]
    (Opinion("no"), "TypeError: answered an Opinion whose keep is 'no'"),  # type: ignore[arg-type]
    (Opinion(Shy()), "TypeError: answered an Opinion whose keep is (Shy, whose text raised"),  # type: ignore[arg-type]
    (Opinion(False, 3), "TypeError: answered an Opinion whose why is 3; expected a text or None"),  # type: ignore[arg-type]
    (Opinion(False, None, "abc"), "ValueError: answered an Opinion whose measured is 'abc'; expected a number, or"),  # type: ignore[arg-type]
    (Opinion(True, None, True), "ValueError: answered an Opinion whose measured is True"),
    (Opinion(True, None, 1.0, [1]), "ValueError: answered an Opinion whose threshold is [1]"),  # type: ignore[arg-type]
    (Opinion(True, None, math.nan), "ValueError: answered an Opinion whose measured is nan; expected a finite"),
    (Opinion(True, None, -math.inf), "ValueError: answered an Opinion whose measured is -inf"),
    (Opinion(False, None, HUGE), "ValueError: answered an Opinion whose measured is 1000"),
    (Opinion(False, None, None, HUGER), "ValueError: answered an Opinion whose threshold is (int, whose text raised"),
    (Opinion(False, None, Shy()), "ValueError: answered an Opinion whose measured is (Shy"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("on_error", POLICIES)
@pytest.mark.parametrize(("answer", "told"), BAD_OPINIONS, ids=[str(n) for n in range(len(BAD_OPINIONS))])
def test_a_filter_that_answers_whatever_it_is_is_decided_by_its_policy(answer: Any, told: str, on_error: str):
    check_policy(filtered(returning(answer), on_error), on_error, told)


@pytest.mark.parametrize(
    ("answer", "keeps", "measured", "threshold"),
    [
        (np.True_, True, None, None),
        (np.bool_(False), False, None, None),
        (Opinion(np.bool_(True), None, np.float32(0.5), np.int64(3)), True, 0.5, 3.0),  # type: ignore[arg-type]
        (Opinion(False, None, Fraction(1, 4), 2), False, 0.25, 2.0),  # type: ignore[arg-type]
    ],
)
def test_numbers_and_bools_of_numpy_are_taken(
    answer: Any, keeps: bool, measured: float | None, threshold: float | None
) -> None:
    (verdict,) = filtered(returning(answer))
    assert isinstance(verdict, e.GroupAccepted if keeps else e.GroupRejected)
    assert (verdict.measured, verdict.threshold) == (measured, threshold)


def test_why_a_filter_rejects_is_told_whatever_characters_it_has():
    (verdict,) = filtered(returning(Opinion(False, f"odd {HALF}")))
    assert isinstance(verdict, e.GroupRejected) and verdict.detail == f"x:y: odd {ESCAPED}"


def test_ctrl_c_is_nobodys_answer():
    with pytest.raises(KeyboardInterrupt):
        filtered(raising(KeyboardInterrupt()))


# ----------------------------------------------------------------------------------------------------------- selectors


def selected(selector: Callable[..., Any], on_error: str) -> list[e.Event]:
    """What the batcher writes of a window of two groups, as it is read again."""
    rule = FilterRule("custom", {"factory": "x:y", "on_error": on_error})
    settings = SelectionSettings(2, True, "none", False, None, False, rule)
    feed = Feed(batcher(replace(rules(), selection=settings), MEMBERS, lambda _: selector))
    return [decode(encode(event)) for event in feed(accepted("0@0"), accepted("1@0"))]


BAD_CHOICES: list[tuple[Any, str]] = [
    (None, "TypeError: answered NoneType; expected a sequence of group ids, or weights by group id"),
    (HALF, "TypeError: answered str"),
    ([HALF], rf"ValueError: named group '{ESCAPED}', which is not there"),
    ([Shy()], "ValueError: named group (Shy, whose text raised RuntimeError), which is not there"),
    (["0@0", "0@0"], "ValueError: named group '0@0', which is named twice"),
    ([["0@0"]], "TypeError"),
    ({"0@0": HUGE}, "ValueError: gave group 0@0 the weight 1000"),
    ({"0@0": HUGER}, "ValueError: gave group 0@0 the weight (int, whose text raised ValueError)"),
    ({"0@0": math.nan}, "ValueError: gave group 0@0 the weight nan; expected a finite number of at least 0"),
    ({"0@0": math.inf}, "ValueError: gave group 0@0 the weight inf"),
    ({"0@0": -1}, "ValueError: gave group 0@0 the weight -1"),
    ({"0@0": True}, "ValueError: gave group 0@0 the weight True"),
    ({"0@0": Shy()}, "ValueError: gave group 0@0 the weight (Shy"),
]
CHOICES = [(raising(error), told) for error, told in RAISED] + [(returning(a), told) for a, told in BAD_CHOICES]


@pytest.mark.parametrize("on_error", POLICIES)
@pytest.mark.parametrize(("selector", "told"), CHOICES, ids=[told[:30] for _, told in CHOICES])
def test_a_selector_that_fails_however_it_does_is_decided_by_its_policy(
    selector: Callable[..., Any], told: str, on_error: str
) -> None:
    written = selected(selector, on_error)
    kept = 2 if on_error == "keep" else 0
    assert len(only(written, e.GroupDeselected)) == 2 - kept
    assert [group.weight for batch in only(written, e.BatchFormed) for group in batch.groups] == [1.0] * kept
    ended = [failed.detail for failed in only(written, e.StageFailed)]
    assert len(ended) == (on_error == "raise")
    assert all(detail.startswith(f"x:y: {told}") for detail in ended)


def test_weights_of_numpy_are_taken():
    written = selected(returning({"0@0": np.float32(0.5), "1@0": np.int64(2)}), "reject")
    assert [group.weight for batch in only(written, e.BatchFormed) for group in batch.groups] == [0.5, 2.0]


@pytest.mark.parametrize("value", [HALF, Shy(), HUGER, object(), np.float64(1), "x" * 10_000], ids=kind)
def test_any_value_has_a_text_that_can_be_written(value: Any):
    for found in (told(value), shown(value), kind(value)):
        assert len(found.encode()) <= 2 * MOST
