"""docs/verifiers.md names every verifier, option with its default, predicate and metric that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from pipeline.config.predicates import Predicate
from pipeline.config.values import Section
from pipeline.verifiers.code import CodeOptions
from pipeline.verifiers.health import AGAIN_S, LEAST, WINDOW_S
from pipeline.verifiers.llm_judge import JudgeOptions
from pipeline.verifiers.math import MathOptions
from pipeline.verifiers.metrics import COUNTERS, WINDOWED

TEXT = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text()


@pytest.mark.parametrize("options", [MathOptions, CodeOptions, JudgeOptions])
def test_every_option_is_described(options: type[Section]) -> None:
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|", TEXT, re.M))
    for name, field in options.model_fields.items():
        assert name in rows or f"`{name}" in TEXT, name
        if name in MathOptions.model_fields and options is MathOptions:
            assert str(field.default) in re.findall(rf"^\| {name} \| ([^|]+) \|", TEXT, re.M)


def test_every_predicate_and_metric_is_named() -> None:
    union = get_args(get_args(Predicate)[0]) or get_args(Predicate)
    types = [get_args(predicate.model_fields["type"].annotation)[0] for predicate in union]
    assert types and all(f"`{type}`" in TEXT for type in types)
    fields = [*COUNTERS, *(f"recent_{field}" for field in WINDOWED), "latency_seconds", "out"]
    names = [f"tamis_verifier_{field}" for field in fields]
    assert all(f"`{name}`" in TEXT or f"`{name.removeprefix('tamis_verifier')}`" in TEXT for name in names)
    assert f"at least {LEAST}," in TEXT and f"last {WINDOW_S} s" in TEXT and f"every {AGAIN_S} s" in TEXT
