"""What an engine returns, checked before it becomes a fact."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest

from pipeline.domain.vocabulary import Failure
from pipeline.engines.door import Refused, admit
from pipeline.sdk import Sample
from pipeline.store.format import Array

IDS = array("i", (5, 6, 7))


def of(logprobs: Any = (-0.1, -0.2, -0.3), ids: Any = IDS, **rest: Any) -> Sample:
    return Sample(ids, logprobs, "abc", **rest)


@pytest.mark.parametrize(
    ("sample", "detail"),
    [
        (of([-0.1, None, -0.3]), "logprobs[1] is None; expected a number"),
        (of([-0.1, math.nan, -0.3]), "logprobs[1] is nan; expected at most 0"),
        (of(array("f", (-0.1, math.nan, -0.3))), "logprobs[1] is nan; expected at most 0"),
        (of([-0.1, -0.2]), "logprobs has 2 items, token_ids 3; expected equal lengths"),
        (of([0.5, -0.1, -0.1]), "logprobs[0] is 0.5; expected at most 0"),
        (of([-0.1, -0.1, math.inf]), "logprobs[2] is inf; expected at most 0"),
        (of([0.0, 1e-30, -0.1]), "expected at most 0"),
        (of(ids=[1, 2**63, 3]), "token_ids[1] is 9223372036854775808; expected an id within 64 bits"),
        (of(ids=[1, 2.5, 3]), "token_ids[1] is 2.5; expected a whole number"),
        (of(ids=3), "token_ids is a int; expected a sequence or a buffer"),
        (of(loss_mask=[1, 1]), "loss_mask has 2 items, token_ids 3; expected equal lengths"),
        (of(loss_mask=[1, 2, 1]), "loss_mask[1] is 2; expected 0 or 1"),
        (of(loss_mask=[1, None, 1]), "loss_mask[1] is None; expected 0 or 1"),
        (of(version_spans=((0, 3, 2**63),)), "version_spans names version 9223372036854775808; expected 0 to 2^63 - 1"),
        (of(version_spans=((0, 2, 1),)), "version_spans covers 2 of 3 tokens; expected all"),
        (of(version_spans=((0, 2, 1), (1, 3, 2))), "version_spans has (1, 3) where 2 is next"),
        (of(entropy=math.nan), "entropy is nan; expected a finite number or None"),
        (of(env_reward=math.inf), "env_reward is inf; expected a finite number"),
        (of(env_reward="1"), "env_reward is '1'; expected a number"),
        (of(finish_reason="tired"), "finish_reason is 'tired'; expected stop, length or abort"),
        (of(failed="sleepy"), "failed is 'sleepy'; expected one of: timeout"),
        ({"text": "abc"}, "the engine returned a dict; expected a pipeline.sdk.Sample"),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_place_and_the_value(sample: Any, detail: str):
    with pytest.raises(Refused) as refused:
        admit(sample, 1)
    assert detail in refused.value.detail
    assert refused.value.failure is Failure.ENV_FAILED


@pytest.mark.parametrize("logprobs", [(-math.inf, -9999.0, -0.1), (0.0, -0.0, -1e38), (-3e38, -1e-45, -0.5)])
def test_the_smallest_and_the_largest_logprobs_pass_as_they_are(logprobs: tuple[float, ...]):
    admitted = admit(of(array("f", logprobs)), 1)
    assert admitted.logprobs == Array("float32", array("f", logprobs).tobytes())


def test_ids_are_kept_as_narrow_as_they_come():
    assert admit(of(ids=array("q", (1, 2, 3))), 1).response_ids == Array("int64", array("q", (1, 2, 3)).tobytes())
    assert admit(of(ids=[1, 2, 2**31]), 1).response_ids == Array("int64", array("q", (1, 2, 2**31)).tobytes())
    assert admit(of(ids=bytes((1, 2, 3))), 1).response_ids == Array("int32", array("i", (1, 2, 3)).tobytes())
    assert (
        admit(of(ids=memoryview(array("H", (1, 2, 65535)))), 1).response_ids.data == array("i", (1, 2, 65535)).tobytes()
    )


def test_a_response_without_spans_is_of_the_loaded_version_throughout():
    assert admit(of(), 7).spans == ((0, 3, 7),)
    assert admit(of(version_spans=((0, 1, 3), (1, 3, 4))), 7).spans == ((0, 1, 3), (1, 3, 4))


@pytest.mark.parametrize(
    ("sample", "failure"),
    [
        (of((), ids=()), Failure.EMPTY),
        (of(finish_reason="abort"), Failure.ABORTED),
        (of(failed="timeout"), Failure.TIMEOUT),
    ],
)
def test_a_sample_that_came_to_nothing_says_why(sample: Sample, failure: Failure):
    with pytest.raises(Refused) as refused:
        admit(sample, 1)
    assert refused.value.failure is failure
