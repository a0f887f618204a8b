"""What an engine returns, checked before it becomes a fact."""

from __future__ import annotations

import math
from array import array
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pipeline.domain import events as e
from pipeline.domain.vocabulary import Failure, Purpose
from pipeline.engines.asks import Ask, Question, Slot
from pipeline.engines.door import Refused, admit
from pipeline.engines.making import Maker, Sampled
from pipeline.log.codec import decode, encode
from pipeline.log.work import Job
from pipeline.sdk import Sample
from pipeline.store.format import Array
from pipeline.store.payloads import PayloadStore

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
        (of(entropy=math.nan), "entropy is nan; expected a finite number"),
        (of(env_reward=math.inf), "env_reward is inf; expected a finite number"),
        (of(env_reward="1"), "env_reward is '1'; expected a number"),
        (of(entropy="much"), "entropy is 'much'; expected a number"),
        (of(entropy=10**400), "expected a number that a float can hold"),
        (of(env_reward=10**400), "expected a number that a float can hold"),
        (of(version_spans=5), "version_spans is 5; expected (start, end, version), all whole numbers"),
        (of(version_spans=((0, 3),)), "version_spans is ((0, 3),); expected (start, end, version)"),
        (of(version_spans=((0, None, 1),)), "expected (start, end, version), all whole numbers"),
        (of(version_spans=((0, 3, 1.5),)), "expected (start, end, version), all whole numbers"),
        (of(finish_reason=["stop"]), "finish_reason is ['stop']; expected stop, length or abort"),
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


def test_numbers_and_flags_of_other_libraries_are_taken_and_can_be_written():
    sample = of(entropy=np.float32(0.5), env_reward=np.float32(1.0), drop_flag=np.bool_(True), detail="\ud800")
    event = made(sample)
    assert (event.failure, event.entropy, event.env_reward, event.drop_flag) == (None, 0.5, 1.0, True)
    assert event.detail == "\\ud800" and decode(encode(event)) == event


@pytest.mark.parametrize("detail", ["\ud800", 7, "long " * 1_000_000])
def test_whatever_an_engine_says_of_a_failure_fits_into_its_record(detail: Any):
    event = made(of(failed="timeout", detail=detail))
    assert event.failure is Failure.TIMEOUT and len(encode(event)) < 10_000 and decode(encode(event)) == event


def made(sample: Sample) -> e.ResponseGenerated:
    """The event that a generator writes for this sample."""
    prompt = e.PromptRef("p", "a", 0, 0)
    issued = e.PromptIssued("1@0", prompt, Purpose.TRAIN, None, "1@0", None, 1, 3, 2, 0, 0, b"{}", 1)
    store, job = cast(PayloadStore, SimpleNamespace(run="r", limit_bytes=10**6)), cast(Job, None)
    question = Question("t", (1,), {}, b"{}", Array("int32", array("i", (1,)).tobytes()))
    slot = Slot(Ask(job, issued, [(0, 0, 1)], 1), 0, 0, 1)
    return Maker(store, "g").make(Sampled(slot, question, sample, 1, 5), 7).event


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
