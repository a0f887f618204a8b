"""Exact match."""

import asyncio

import pytest

from pipeline.sdk import Score, ScoreRequest
from pipeline.verifiers.exact import ExactMatch


def test_only_the_target_itself_scores() -> None:
    texts = ["123", "1234", "12", " 123", ""]
    requests = [ScoreRequest(str(index), text, "123", {}) for index, text in enumerate(texts)]
    scores = asyncio.run(ExactMatch(0, {}).score(requests))
    assert scores == [Score(1.0), Score(0.0), Score(0.0), Score(0.0), Score(0.0)]


def test_it_takes_no_options() -> None:
    with pytest.raises(ValueError, match="strict"):
        ExactMatch(0, {"strict": True})
