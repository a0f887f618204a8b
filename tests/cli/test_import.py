"""`tamis config import`: a configuration of another system in, one of ours out, and what was lost on standard error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import ROOT, Tamis

EXAMPLES = ROOT / "tests" / "config" / "imports"
Write = Callable[..., Path]


def test_an_imported_file_passes_the_check(offline: Tamis, home: Path) -> None:
    answer = offline("config", "import", "--from", "roll", EXAMPLES / "roll" / "mean_filter.yaml", "--out", "run.yaml")
    assert answer.code == 0
    assert answer.out == "run.yaml: written; next: tamis config check run.yaml\n"
    assert answer.err.startswith("4 settings carried, 7 to write, 1 keys not\n")
    checked = offline("config", "check", "run.yaml")
    assert (checked.code, checked.out) == (0, "run.yaml: a run called imported can be made of it\n")


def test_without_a_file_to_write_the_configuration_is_all_of_standard_output(offline: Tamis, write: Write) -> None:
    path = write("seed: 3\nwhiten_advantages: true\n", name="mine.yaml")
    answer = offline("config", "import", "--from", "roll", path, "--set", "seed=4")
    assert answer.code == 0
    write(answer.out)
    shown = json.loads(offline("config", "show", "run.yaml", "--json").out)
    assert shown["decisions"]["seed"]["value"] == 4
    assert "whiten_advantages" in answer.err and "compute it in the learner" in " ".join(answer.err.split())


def test_what_looks_like_markup_is_shown_as_it_is(offline: Tamis, write: Write) -> None:
    path = write('seed: 3\nwhiten_advantages: "[bold]x[/INST]"\n', name="mine.yaml")
    answer = offline("config", "import", "--from", "roll", path, "--out", "run.yaml")
    assert answer.code == 0 and "[bold]x[/INST]" in "".join(answer.err.split())


def test_strict_says_no_to_what_is_lost(offline: Tamis, write: Write) -> None:
    path = write("seed: 3\nwhiten_advantages: true\n", name="mine.yaml")
    words = ("config", "import", "--from", "roll", path, "--json")
    assert (offline(*words).code, offline(*words, "--strict").code) == (0, 1)
    write("seed: 3\n", name="mine.yaml")
    assert offline(*words, "--strict").code == 0


def test_the_machine_readable_answer_has_everything(offline: Tamis, write: Write) -> None:
    path = write("seed: 3\nstrange: 1\nmy_token: hidden\n", name="mine.yaml")
    found = json.loads(offline("config", "import", "--from", "roll", path, "--json").out)
    assert found["system"] == "ROLL" and found["configuration"]["seed"] == 3
    assert found["origins"]["seed"] == "from seed" and "engine.factory" in found["to_write"]
    assert [one["value"] for one in found["not_carried"] if one["fate"] == "unknown"] == ["1", "***"]
    assert found["problems"] == []


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        (("--from", "verl"), "seed: 1", "--from verl: there is no such system; expected one of: roll, ragen, miles"),
        (("--from", "ragen"), "rewards: {}", "nothing in it is known of RAGEN; is it of another system (--from)?"),
        (("--from", "roll"), "a: [", "not_yaml"),
        (("--from", "roll", "--set", "seed"), "a: 1", "override 'seed': expected key.path=value"),
        (("--from", "roll", "--out", "mine.yaml"), "seed: 1", "mine.yaml exists; remove it, or name another file"),
    ],
)
def test_what_can_not_be_done_is_said(offline: Tamis, write: Write, words: list[str], text: str, said: str) -> None:
    answer = offline("config", "import", write(text, name="mine.yaml"), *words)
    assert answer.code == 2 and said in answer.err and answer.out == ""


def test_a_result_that_no_run_can_be_made_of_says_why(offline: Tamis, write: Write) -> None:
    path = write("[miles]\ndynamic_sampling_filter_path = 'a.b'\n", name="mine.toml")
    answer = offline("config", "import", "--from", "miles", path)
    assert answer.code == 0
    assert "no run can be made of it yet: filter_zero_std_groups: is true, but domain all has the custom" in answer.err


def test_the_keys_of_a_system_are_listed(offline: Tamis) -> None:
    answer = offline("config", "import", "--from", "roll", "--keys", "--json")
    assert answer.code == 0
    rows = {row["key"]: row["ours"] for row in json.loads(answer.out)}
    assert rows["seed"] == "seed" and rows["train_env_manager.group_size_redundancy"] == "redundancy"
    assert offline("config", "import", "--from", "roll").code == 2
