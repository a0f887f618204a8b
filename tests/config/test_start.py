"""Where a forked run begins: recorded only if set, read back, and checked."""

import json

import pytest

from pipeline.config import canonical, parse_canonical, resolve_budget
from pipeline.domain.rules import rules_of
from pipeline.domain.training import Policy

START = {
    "run": "a",
    "step": 4,
    "version": 3,
    "checkpoint": "checkpoints/v000003-i0-0a1b2c3d.bin",
    "sha256": "ab" * 32,
    "prompts": {"math": 12},
}


def test_it_is_recorded_if_there_is_one_and_read_back(config):
    plain = canonical(resolve_budget(config(), 64 * 2**30))
    made = resolve_budget(config(start=START), 64 * 2**30)
    text = canonical(made)
    assert "start" not in json.loads(plain)
    assert json.loads(text) == json.loads(plain) | {"start": START}
    assert parse_canonical(text) == parse_canonical(canonical(parse_canonical(text))) and made.start is not None
    assert parse_canonical(text).start == made.start
    assert made.start.policy() == Policy(3, START["checkpoint"], "ab" * 32)


def test_the_scheduler_reads_how_many_prompts_each_domain_had_drawn(config):
    domains = {"math": {"quota": 4}, "code": {"quota": 1}}
    rules = rules_of(canonical(resolve_budget(config(start=START, domains=domains), 64 * 2**30)))
    assert {d.name: d.drawn for d in rules.domains} == {"math": 12, "code": 0}
    assert [d.drawn for d in rules_of(canonical(resolve_budget(config(), 64 * 2**30))).domains] == [0]


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        ({"prompts": {"maths": 1}}, "start.prompts.maths", "did you mean 'math'"),
        ({"prompts": {"math": -1}}, "start.prompts.math", "-1"),
        ({"checkpoint": "../a/checkpoints/v1.bin"}, "start.checkpoint", "../a"),
        ({"checkpoint": "checkpoints/../x.bin"}, "start.checkpoint", "checkpoints/../x.bin"),
        ({"sha256": "ab"}, "start.sha256", "'ab'"),
        ({"step": True}, "start.step", "True"),
        ({"run": "A"}, "start.run", "'A'"),
        ({"steps": 4}, "start.steps", "did you mean 'step'"),
    ],
)
def test_what_it_cannot_be_is_refused_with_its_place(problems, change, key, said):
    (problem,) = problems(start=START | change)
    assert str(problem).startswith(f"{key}: ") and said in str(problem)
