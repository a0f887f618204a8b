"""Which rows of a prompt file are used, and how many are left out for what."""

import json

import pytest

from pipeline.config import ConfigError
from pipeline.prompts.jsonl import JsonlPrompts
from pipeline.prompts.rows import BadRow


@pytest.fixture
def source(tmp_path):
    rows = [
        {"id": f"{n}", "prompt": "p", "target": "t", "metadata": {"difficulty": n / 4, "source": "ab"[n % 2]}}
        for n in range(5)
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return lambda **options: JsonlPrompts(0, {"path": str(path), "shuffle": False, **options})


def ids(made):
    return [made.at("default", n, 0).id for n in range(made.size("default"))]


def test_bounds_of_difficulty_are_inclusive(source):
    made = source(difficulty={"low": 0.25, "high": 0.75})
    assert (ids(made), dict(made.left_out)) == (["1", "2", "3"], {"difficulty": 2})
    assert ids(source(difficulty={"low": 1})) == ["4"]
    assert ids(source(difficulty={"high": 0})) == ["0"]


def test_source_and_count_leave_out_and_each_is_counted(source):
    made = source(sources=["a"], difficulty={"low": 0.5}, count=1)
    assert (ids(made), dict(made.left_out)) == (["2"], {"source": 2, "difficulty": 1, "count": 1})


def test_what_is_used_decides_the_hash_and_nothing_else(source):
    everything = source()
    assert everything.left_out == {} and source(count=5).content_hash == everything.content_hash
    assert source(count=4).content_hash != everything.content_hash


def test_nothing_left_or_nothing_to_look_at_is_refused(source):
    with pytest.raises(BadRow, match=r"no prompts in it; all are left out: 5 by source"):
        source(sources=["c"])
    with pytest.raises(BadRow, match=r"jsonl:1: metadata.level: is None; expected a number"):
        source(difficulty={"key": "level", "low": 0})
    with pytest.raises(ConfigError, match="did you mean 'difficulty'"):
        source(dificulty={"low": 0})
