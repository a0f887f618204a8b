"""A user's own verifier or predicate judges, or its policy does; it ends nothing, and what is told can be written."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from pipeline.domain import events as e
from pipeline.domain.vocabulary import Grading
from pipeline.log.codec import decode, encode
from pipeline.sdk import Judged, Misconfigured, Score, ScoreRequest
from pipeline.verifiers import response_filter
from pipeline.verifiers.judge import Judge
from pipeline.verifiers.returned import Blank, Outcome
from pipeline.verifiers.verdict import Opinion, Verdict, verdict_of
from tests.bad_code import CANCELLED, ERRORS, ESCAPED, HALF, HUGE, HUGER, Mute, Shy, raising, returning
from tests.domain.given import scored

REQUEST = ScoreRequest("0@0/0.1", "text", "target", {})
RAISED = list(ERRORS.values())


class Verifier:
    """Answers each call with what its function does."""

    batch, concurrency = 1, 1

    def __init__(self, *answers: Callable[..., Any], closes: Callable[[], Any] = lambda: None) -> None:
        self._answers = list(answers)
        self.close = closes

    async def score(self, requests: Sequence[ScoreRequest]) -> Any:
        return self._answers.pop(0)(requests)


def judged(*answers: Callable[..., Any], **rest: Any) -> list[Outcome]:
    """What a verifier's calls come to, one after the other, in one task group as in the scorer."""

    async def judge() -> list[Outcome]:
        found: list[Outcome] = []
        done, judge = asyncio.Event(), Judge("mine", Verifier(*answers, **rest), 5.0, "drop_response")

        def hear(outcome: Outcome, _: int) -> None:
            found.append(outcome)
            if len(found) == len(answers):
                done.set()

        async with asyncio.TaskGroup() as tasks:
            judge.start(tasks)
            judge.ask([(REQUEST, hear)] * len(answers))
            await done.wait()
            await judge.stop()
        return found

    return asyncio.run(judge())


def written(outcome: Outcome, on_failure: Literal["zero", "drop_response", "raise"] = "drop_response") -> Verdict:
    """The verdict on it; its events can be written and say the same when they are read."""
    verdict = verdict_of([Opinion("mine", 1.0, outcome, on_failure)])
    event = scored(
        REQUEST.response_id, verdict.reward, discard=verdict.discard, raw_score=verdict.raw,
        penalties=verdict.penalties, components=verdict.components, grading=verdict.grading,
        detail=verdict.detail or verdict.answers,
    )  # fmt: skip
    assert repr(decode(encode(event))) == repr(event), "not even an escape is needed any more"
    if verdict.ends_run is not None:
        encode(e.StageFailed("scorer", None, verdict.ends_run, 0))
    return verdict


@pytest.mark.parametrize(("error", "told"), RAISED, ids=list(ERRORS))
def test_a_verifier_that_raises_whatever_it_is_leaves_a_response_ungraded(error: BaseException, told: str):
    outcome, after = judged(raising(error), returning([1.0]))
    assert outcome == Blank("error", f"verifier 'mine' raised {told}")
    assert after == Score(1.0), "and goes on"
    assert (written(outcome).grading, written(outcome, "zero").reward) == (Grading.UNGRADED, 0.0)
    assert written(outcome, "raise").ends_run == f"verifier 'mine' raised {told}"


def test_a_cancellation_of_its_own_and_an_odd_misconfiguration_are_answers_too():
    outcomes = judged(raising(CANCELLED[0]), raising(Misconfigured(HALF)), raising(Misconfigured(Mute())))
    assert [blank.detail for blank in outcomes if isinstance(blank, Blank)] == [
        "verifier 'mine' was cancelled from inside",
        f"verifier 'mine' can't judge: {ESCAPED}",
        "verifier 'mine' can't judge: (Misconfigured, whose text raised RuntimeError)",
    ]


class Lies(Sequence[Any]):
    """A sequence that breaks when it is read."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: Any) -> Any:
        raise RuntimeError(HALF)


UNREADABLE = "returned what can't be read: "
BAD: list[tuple[Any, str, str]] = [
    (None, "wrong_type", "returned a NoneType; expected a sequence of"),
    (Shy(), "wrong_type", "returned a Shy; expected a sequence of"),
    (Lies(), "wrong_type", f"{UNREADABLE}RuntimeError: {ESCAPED}; expected a"),
    ([], "wrong_count", "returned 0 scores for 1 requests"),
    (["1"], "wrong_type", "returned a str; expected a"),
    ([Shy()], "wrong_type", "returned a Shy; expected a"),
    ([HUGE], "not_finite", "returned inf; expected a"),
    ([-HUGER], "not_finite", "returned -inf; expected a"),
    ([math.nan], "not_finite", "returned nan; expected a"),
    ([np.float32("inf")], "not_finite", "returned inf; expected a"),
    ([Score(HUGE)], "not_finite", "returned inf"),
    ([Score("1")], "wrong_type", "returned a Score whose value is a str; expected a"),  # type: ignore[arg-type]
    ([Score(1.0, penalty=HUGE)], "wrong_type", "returned a Score whose penalty is 1000"),
    ([Score(1.0, penalty=math.nan)], "wrong_type", "returned a Score whose penalty is nan, no finite number"),
    ([Score(1.0, penalty=Shy())], "wrong_type", "returned a Score whose penalty is (Shy, whose text raised"),  # type: ignore[arg-type]
    ([Score(1.0, penalty=HUGER)], "wrong_type", "returned a Score whose penalty is (int, whose text raised"),
    ([Score(1.0, components={1: 1.0})], "wrong_type", "returned a Score with components that are no numbers"),  # type: ignore[dict-item]
    ([Score(1.0, components=[1])], "wrong_type", "returned a Score with components that are no numbers"),  # type: ignore[arg-type]
    ([Score(1.0, components=Shy())], "wrong_type", f"{UNREADABLE}RuntimeError: no truth"),  # type: ignore[arg-type]
    ([Score(None, HALF)], ESCAPED, f" gave no score: {ESCAPED}"),
    ([Score(None, Shy())], "(Shy, whose text raised RuntimeError)", " gave no score: (Shy"),  # type: ignore[arg-type]
    ([Score(None, "busy", detail=HALF)], "busy", f": {ESCAPED}"),
    ([Score(None, "busy", detail=Shy())], "wrong_type", f"{UNREADABLE}RuntimeError: no truth"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("answer", "outcome", "told"), BAD, ids=[f"{n}" for n in range(len(BAD))])
def test_a_verifier_that_returns_whatever_it_is_leaves_a_response_ungraded(answer: Any, outcome: str, told: str):
    blank, after = judged(returning(answer), returning([1.0]))
    assert isinstance(blank, Blank) and blank.outcome == outcome and after == Score(1.0)
    assert told in blank.detail and blank.detail.startswith("verifier 'mine'")
    assert written(blank).grading is Grading.UNGRADED


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (np.float32(0.5), Score(0.5)),
        (np.int64(2), Score(2.0)),
        (Fraction(1, 4), Score(0.25)),
        (True, Score(1.0)),
        (Score(np.float64(1), penalty=np.float32(-0.5)), Score(1.0, penalty=-0.5)),
        (Score(1, components={HALF: np.float32(0.5)}, answer=HALF), Score(1.0, "ok", {ESCAPED: 0.5}, ESCAPED)),
        (Score(1.0, answer=3), Score(1.0)),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_numbers_of_all_kinds_and_half_characters_are_taken(answer: Any, expected: Score):
    (outcome,) = judged(returning([answer]))
    assert outcome == expected and written(outcome).grading is Grading.GRADED


def test_a_component_that_is_not_finite_is_kept():
    (outcome,) = judged(returning([Score(1.0, components={"a": math.nan, "b": HUGER})]))
    components = written(outcome).components
    assert math.isnan(components["a"]) and components["b"] == math.inf


@pytest.mark.parametrize("error", [error for error, _ in [*RAISED, CANCELLED]], ids=[*ERRORS, "cancelled"])
def test_a_verifier_that_cannot_be_closed_holds_nobody_up(error: BaseException):
    assert judged(returning([1.0]), closes=raising(error)) == [Score(1.0)]


# ---------------------------------------------------------------------------------------------------------- predicates

JUDGED = Judged("text", (1, 2), 2, "stop", 1.0, {})
ANSWERS: list[tuple[Any, str]] = [
    (None, "TypeError: x:y answered NoneType; expected a bool: true rejects"),
    (1, "TypeError: x:y answered int"),
    (HALF, "TypeError: x:y answered str"),
    (Shy(), "TypeError: x:y answered Shy"),
    (np.array([True]), "TypeError: x:y answered ndarray"),
]
PREDICATES = [(raising(error), told) for error, told in [*RAISED, CANCELLED]]
PREDICATES += [(returning(answer), told) for answer, told in ANSWERS]


@pytest.mark.parametrize(("predicate", "told"), PREDICATES, ids=[told[:30] for _, told in PREDICATES])
def test_a_predicate_that_fails_however_it_does_is_decided_by_its_policy(predicate: Callable[..., Any], told: str):
    assert response_filter.asked(JUDGED, predicate, "x:y", "keep") is None
    for on_error in ("reject", "raise"):
        with pytest.raises(response_filter.Raised) as caught:
            response_filter.asked(JUDGED, predicate, "x:y", on_error)
        assert str(caught.value).startswith(told) and caught.value.ends_run is (on_error == "raise")
        str(caught.value).encode()


@pytest.mark.parametrize(("answer", "rejects"), [(np.True_, True), (np.False_, False)])
def test_bools_of_numpy_are_taken(answer: Any, rejects: bool):
    assert (response_filter.asked(JUDGED, returning(answer), "x:y", "reject") is not None) is rejects
