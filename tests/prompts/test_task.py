import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import canonical, parse, resolve_budget
from pipeline.domain.ports import Issuable
from pipeline.domain.rules import rules_of
from pipeline.prompts.feed import Feed
from pipeline.prompts.task import BadTask, decode, decode_grading, encode, grading_bytes
from pipeline.sdk import Task, VerifierBinding

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
tasks = st.builds(
    Task,
    id=text,
    text=text,
    token_ids=st.lists(st.integers(0, 2**31 - 1), max_size=10).map(tuple),
    verifiers=st.lists(st.builds(VerifierBinding, text, text, finite), max_size=3).map(tuple),
    metadata=st.dictionaries(text, plain, max_size=3),
)
TASK = Task("é", "two?", (1, 2), (VerifierBinding("exact", "2", 1),), {"b": 1, "a": [None]})


@given(tasks)
def test_a_task_comes_back_as_it_was(task):
    assert decode(encode(task)) == task


@given(tasks)
def test_a_scorer_gets_all_but_text_and_tokens(task):
    rubric = decode_grading(grading_bytes(task))
    assert (rubric.id, rubric.verifiers, rubric.metadata) == (task.id, task.verifiers, task.metadata)
    assert set(json.loads(grading_bytes(task))) == {"id", "verifiers", "metadata"}


def test_the_bytes_of_a_task_never_change():
    assert encode(TASK).decode() == (
        '{"id":"é","metadata":{"a":[null],"b":1},"text":"two?","tokens":[1,2],'
        '"verifiers":[{"name":"exact","target":"2","weight":1.0}]}'
    )


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), True, "1", None, 10**400])
def test_a_weight_must_be_a_finite_number(weight):
    with pytest.raises(BadTask, match="'exact'"):
        encode(Task("t", "x", (), (VerifierBinding("exact", "2", weight),)))


@pytest.mark.parametrize("metadata", [{"x": float("nan")}, {"x": b"y"}, {"x": {1}}, {"x": "\ud800"}])
def test_metadata_that_json_cannot_hold_is_refused(metadata):
    with pytest.raises(BadTask, match="'t'"):
        encode(Task("t", "x", (), (), metadata))


@pytest.mark.parametrize(
    "encoded",
    [b"", b"\xff", b"[]", b"{}", b'{"id":"a","verifiers":[],"metadata":{}}', encode(TASK).replace(b"[1,2]", b'["1"]')],
)
def test_other_bytes_are_no_task(encoded):
    with pytest.raises(BadTask):
        decode(encoded)


@pytest.mark.parametrize("encoded", [b"{}", b'{"id":"a","verifiers":[{}],"metadata":{}}', b"[" * 100_000])
def test_other_bytes_are_nothing_to_grade_by(encoded):
    with pytest.raises(BadTask):
        decode_grading(encoded)


class One:
    content_hash = "h"

    def __init__(self, task):
        self.task = task

    def domains(self):
        return ["math"]

    def size(self, domain):
        return {"math": 1}[domain]

    def at(self, domain, ordinal, epoch):
        return self.task


def feed(task, **limits):
    plugin = {"factory": "a:b"}
    least = {"run": "r", "steps": 1, "prompts": plugin, "engine": plugin, "learner": plugin}
    config = parse(least | {"domains": {"math": {"quota": 1}}} | limits)
    return Feed(One(task), rules_of(canonical(resolve_budget(config, 2**30))))


def test_the_feed_gives_a_task_as_the_domain_wants_it():
    made = feed(TASK)
    assert made.size("math") == 1
    assert made.at("math", 0, 0) == Issuable("é", encode(TASK), 2, None)


def test_the_feed_says_why_a_prompt_is_too_long():
    size = len(encode(TASK))
    assert feed(TASK, max_prompt_tokens=1).at("math", 0, 0).problem == "2 tokens, more than max_prompt_tokens 1"
    assert feed(TASK, max_prompt_tokens=2).at("math", 0, 0).problem is None
    assert f"{size} bytes" in feed(TASK, max_task_bytes=size - 1).at("math", 0, 0).problem
    assert feed(TASK, max_task_bytes=size).at("math", 0, 0).problem is None
