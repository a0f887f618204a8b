"""No configuration, however broken, ends the checker with anything but its own error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import ConfigError, canonical, cautions, load, parse, parse_canonical, resolve_budget
from pipeline.config.filters import Filter
from pipeline.config.models import DecisionConfig

PLUGIN = {"factory": "somewhere:Something"}
LEAST = {
    "run": "r",
    "steps": 10,
    "prompts": PLUGIN,
    "engine": PLUGIN,
    "learner": PLUGIN,
    "domains": {"math": {"quota": 4}},
}
KEYS = [field.alias or name for name, field in DecisionConfig.model_fields.items()]
INNER = sorted({name for cls in get_args(get_args(Filter)[0]) for name in cls.model_fields} | {
    "lease", "deadline", "every", "budget", "max", "ttl", "policy", "window", "strategy", "value", "refill", "kind",
    "filters", "guard", "quota", "proportion", "default", "math", "level", "aggregation", "difficulty_mask",
    "no_progress",
})  # fmt: skip
TYPES = [get_args(cls.model_fields["type"].annotation)[0] for cls in get_args(get_args(Filter)[0])]
WORDS = [*TYPES, "roll_ratio", "window", "consecutive", "ranked", "top_p", "smallest", "5m", "1e-8", "64MiB", "none",
         "any",
         "somewhere:Something", "a.b:c", "refresh", "grpo", "1" * 400, "0x10", "\x00", "\ud800", "٣"]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(0, 12), st.floats(),
    st.sampled_from([0.0, -0.0, 1e308, 5e-324]), st.sampled_from(WORDS), st.text(max_size=6),
)  # fmt: skip
NAMES = st.one_of(st.sampled_from(INNER), st.sampled_from(INNER), st.text(max_size=4))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
LINKS = st.builds(
    lambda kind, more: {"type": kind} | more, st.sampled_from(TYPES), st.dictionaries(NAMES, SCALARS, max_size=3)
)
CHAINS = st.dictionaries(st.sampled_from(["default", "math", "maths"]), st.lists(LINKS, max_size=3), max_size=2)
CHANGES = st.dictionaries(st.sampled_from(KEYS), st.one_of(VALUES, SCALARS), max_size=5)


def is_refused_or_runs(check: Callable[[], DecisionConfig]) -> None:
    """The checker answers with a configuration or with its own error, whose problems can be read."""
    try:
        made = check()
        found = cautions(made, 2**36)
        text = canonical(resolve_budget(made, 2**50))
    except ConfigError as error:
        found = list(error.problems)
        assert found
    else:
        assert canonical(parse_canonical(text)) == text
    assert all(problem.name and str(problem) for problem in found)


@settings(max_examples=300)
@given(CHANGES, st.one_of(st.none(), CHAINS), st.booleans())
def test_any_values_at_any_keys(changes: dict[str, Any], chains: dict[str, Any] | None, least: bool) -> None:
    tree = (LEAST if least else {}) | changes | ({"filters": chains} if chains is not None else {})
    is_refused_or_runs(lambda: parse(tree))


@settings(max_examples=60)
@given(CHANGES)
def test_any_values_in_a_file_with_overrides(changes: dict[str, Any]) -> None:
    FOLDER.file.write_text(yaml.safe_dump(LEAST | changes))
    key, value = next(iter(changes.items()), ("seed", 1))
    is_refused_or_runs(lambda: load(FOLDER.file, [f"{key}={json.dumps(value)}"]))


@settings(max_examples=150)
@given(
    st.one_of(
        st.text(max_size=60), st.text(alphabet="{}[]:,-&*!|>'\"#%@` \n\tab01.~?", max_size=40), st.binary(max_size=30)
    )
)
def test_any_text_as_a_file(text: str | bytes) -> None:
    raw = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    for suffix in (".yaml", ".toml"):
        path = FOLDER.file.with_suffix(suffix)
        path.write_bytes(raw)
        is_refused_or_runs(lambda path=path: load(path))


@pytest.mark.parametrize("depth", [50, 2000])
def test_a_text_of_many_levels(depth: int, tmp_path: Path) -> None:
    for name, text in {"a.yaml": "a: " + "[" * depth, "b.yaml": "run: " + "{a: " * depth + "1" + "}" * depth,
                       "c.toml": "a = " + "[" * depth + "]" * depth}.items():  # fmt: skip
        (tmp_path / name).write_text(text)
        is_refused_or_runs(lambda name=name: load(tmp_path / name))


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "f" * 5000])
def test_numbers_of_thousands_of_digits(text: str, tmp_path: Path) -> None:
    for name, line in {"a.yaml": f"seed: {text}", "b.toml": f"seed = {text}"}.items():
        (tmp_path / name).write_text(line)
        is_refused_or_runs(lambda name=name: load(tmp_path / name))


class _Folder:
    file: Path


FOLDER = _Folder()


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    FOLDER.file = tmp_path_factory.mktemp("texts") / "run.yaml"
