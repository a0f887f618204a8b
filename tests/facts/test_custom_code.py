"""examples/custom.yaml: a verifier and a group filter of a user's own, in the real scorer, assembler and filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.config import load, source_hashes
from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Reason
from pipeline.local import Services
from pipeline.prompts import task
from tests.domain.given import assembled, member
from tests.facts.rig import DEADLINE_S, FINISHED, REPOSITORY, Rig, a_task
from tests.facts.test_scorer import generated, scored

pytestmark = pytest.mark.contract
EXAMPLE = REPOSITORY / "examples" / "custom.yaml"
OURS = {"examples.my_verifier:Words", "examples.my_filter:NotTooLong"}


def custom(**changed: Any) -> dict[str, Any]:
    """The example's own part of a configuration."""
    tree = yaml.safe_load(EXAMPLE.read_text())
    return {name: tree[name] for name in ("verifiers", "filters")} | {"domains": {"sorting": {"quota": 1}}} | changed


def test_the_example_can_be_loaded_and_its_sources_are_hashed():
    config = load(EXAMPLE).model_copy(update={name: None for name in ("prompts", "engine", "learner")})
    assert source_hashes(config).keys() == OURS


def test_a_verifier_of_ones_own_judges_in_the_scorer(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path, record_text="all", **custom())
    assert OURS.issubset(rig.started.started.sources)
    grading = task.grading_bytes(task.decode(a_task("tide moon", ["words"])))
    texts = ["The Moon makes the tide", "the moon", "no"]
    responses = [generated(rig, slot, text, grading=grading) for slot, text in enumerate(texts)]
    found = scored(rig, responses)
    assert [found[slot, 1].reward for slot in range(3)] == [1.0, 0.5, 0.0]
    assert found[0, 1].detail == "words: answer tide moon"


def test_a_filter_of_ones_own_decides_in_the_filter_and_its_exception_ends_nothing(
    services: Services, run_name: str, tmp_path: Path
):
    chains = custom()["filters"]
    chains["default"].append({"type": "custom", "factory": "tests.facts.plugins:Touchy"})
    rig = Rig(services, run_name, tmp_path, **custom(filters=chains))
    groups = [
        assembled(f"{n}@0", [member(slot, slot % 2, response_tokens=tokens) for slot in range(4)], domain="sorting")
        for n, tokens in enumerate((600, 20, 0, 7, 20))
    ]
    rig.write(Topic.GROUPS, [*groups, FINISHED])
    assert rig.process("filter", "--until-finished").wait(DEADLINE_S) == 0
    long, short, broken, odd, after = rig.read(Topic.LEDGER)[1:]
    assert isinstance(long, e.GroupRejected) and (long.reason, long.measured) == (Reason.CUSTOM, 600.0)
    assert (long.threshold, long.detail) == (512.0, "examples.my_filter:NotTooLong: too long on average")
    assert isinstance(broken, e.GroupRejected) and broken.reason is Reason.FILTER_ERROR
    assert broken.detail == "tests.facts.plugins:Touchy: ValueError: no tokens at all: \\ud83d"
    assert isinstance(odd, e.GroupRejected) and (odd.measured, odd.threshold) == (7.0, 8.0)
    assert odd.detail == "tests.facts.plugins:Touchy: \\ud83d"
    assert isinstance(short, e.GroupAccepted) and isinstance(after, e.GroupAccepted)
