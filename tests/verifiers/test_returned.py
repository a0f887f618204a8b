"""Whatever a verifier returns ends as an event that can be written, and so does whatever it says."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pipeline.domain import events as e
from pipeline.domain.vocabulary import FinishReason, Grading, Purpose
from pipeline.log.codec import decode, encode
from pipeline.sdk import Score, ScoreRequest
from pipeline.verifiers.returned import checked
from pipeline.verifiers.verdict import Opinion, scored, verdict_of

RESPONSE = e.ResponseGenerated(
    "1@0", 0, 1, Purpose.TRAIN, "k", 10, 5, None, None, FinishReason.STOP, 1, 2, 0, 0, None, None, False, False, False,
    1, "g", 1,
)  # fmt: skip


def event(returned: Any) -> e.ResponseScored:
    """What a scorer writes for it, as it is read again."""
    (outcome,) = checked("exact", [ScoreRequest("1@0/0.1", "t", "y", {})], [returned])
    written = encode(scored(RESPONSE, verdict_of([Opinion("exact", 1.0, outcome, "drop_response")]), 1, 1, None, 1))
    assert len(written) < 100_000
    found = decode(written)
    assert isinstance(found, e.ResponseScored)
    return found


@pytest.mark.parametrize(
    ("returned", "reward"),
    [
        (np.float32(0.5), 0.5),
        (Fraction(1, 2), 0.5),
        (Score(np.int64(1)), 1.0),  # type: ignore[arg-type]
        (Score(1.0, penalty=np.float32(-0.5)), 0.5),  # type: ignore[arg-type]
        (Score(1.0, components={"a": np.float32(1)}), 1.0),  # type: ignore[dict-item]
        (Score(1.0, components=None), 1.0),  # type: ignore[arg-type]
        (Score(1.0, components={"\ud800": 1.0}), 1.0),
        (Score(1.0, answer="\ud800"), 1.0),
    ],
)
def test_a_number_of_any_kind_is_a_score(returned: Any, reward: float):
    found = event(returned)
    assert (found.reward, found.grading) == (reward, Grading.GRADED)


@pytest.mark.parametrize(
    ("returned", "detail"),
    [
        (10**400, "returned inf; expected"),
        (Score(-(10**400)), "returned -inf; expected"),
        (Fraction(10**400), "returned inf; expected"),
        (math.nan, "returned nan; expected"),
        (Score(1.0, penalty=10**400), "a Score whose penalty is 1000"),
        (Score(1.0, components={"a": "b"}), "components that are no numbers"),  # type: ignore[dict-item]
        (Score(1.0, components={str(n): 1.0 for n in range(1000)}), "components that are no numbers"),
        (Score(None, "down", detail="\ud800"), "verifier 'exact': \\ud800"),
        (Score(None, "\ud800"), "gave no score: \\ud800"),
        (Score(None, "down", detail="long " * 1_000_000), "more characters]"),
    ],
)
def test_anything_else_leaves_the_response_ungraded_and_says_why(returned: Any, detail: str):
    found = event(returned)
    assert (found.reward, found.grading) == (None, Grading.UNGRADED)
    assert found.detail is not None and detail in found.detail
