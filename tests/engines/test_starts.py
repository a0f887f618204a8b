"""What a prompt that is issued again has in common with the first time."""

from dataclasses import replace
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.vocabulary import Purpose
from pipeline.engines.calls import request_seed
from pipeline.engines.starts import start_seed
from tests.domain.given import EVAL, only, rejected, rules, started
from tests.domain.test_scheduling import scheduling


def twice(replacement: str) -> tuple[e.PromptIssued, e.PromptIssued]:
    """A group of a prompt, and the group that replaces it."""
    feed = scheduling(replacement=replacement)
    first, *_ = only(feed(started()), e.PromptIssued)
    (again,) = only(feed(rejected(first.group_id)), e.PromptIssued)
    return first, again


@pytest.mark.parametrize("replacement", ["same_prompt", "new_seed", "next_prompt"])
def test_the_same_prompt_is_the_same_start_sampled_anew_and_a_new_seed_another_start(replacement: Any) -> None:
    r = rules(replacement=replacement)
    first, again = twice(replacement)
    same = replacement == "same_prompt"
    assert (first.prompt == again.prompt) is (replacement != "next_prompt")
    assert (start_seed(r, first) == start_seed(r, again)) is same
    for slot in range(4):
        assert request_seed(first.seed, slot, 1) != request_seed(again.seed, slot, 1)


def test_a_start_is_another_in_each_pass_and_run() -> None:
    first, _ = twice("same_prompt")
    later = replace(first, prompt=replace(first.prompt, epoch=1))
    seeds = [start_seed(rules(), first), start_seed(rules(), later), start_seed(rules(seed=18), first)]
    assert len(dict.fromkeys(seeds)) == 3
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("replacement", ["same_prompt", "new_seed"])
def test_each_evaluation_plays_the_same_starts(replacement: Any) -> None:
    first, again = (replace(p, purpose=Purpose.EVAL, eval=EVAL) for p in twice("same_prompt"))
    r = rules(replacement=replacement)
    assert start_seed(r, first) == start_seed(r, replace(again, seed=again.seed + 1))
