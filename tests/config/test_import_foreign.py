"""Files of other systems are read as those systems read them; what a file alone doesn't tell is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import ConfigError
from pipeline.config.imports import SYSTEMS, imported
from pipeline.config.imports.foreign import foreign, key_text, of_values, read_foreign
from pipeline.config.imports.interpolation import Unresolved
from pipeline.config.yaml12 import parse_yaml
from tests.config import test_import_miles, test_import_ragen, test_import_roll


def value(text: str, key: str, *overrides: str) -> Any:
    found = foreign(text, "f.yaml", ".yaml", overrides)
    return found.values[tuple(key.split("."))]


@pytest.mark.parametrize(
    ("text", "read_as"),
    [("1e-6", 1e-6), ("1.0e-6", 1e-6), ("yes", True), ("off", False), ("1_000", 1000), ("2026-03-01", "2026-03-01"),
     ("0.95", 0.95), ("null", None), ("'1e-6'", "1e-6"), ("12e3", 12000.0), (".5", 0.5)],
)  # fmt: skip
def test_scalars_are_those_of_omegaconf(text: str, read_as: Any) -> None:
    found = value(f"a: {text}", "a")
    assert found == read_as and type(found) is type(read_as)


def test_a_key_twice_is_refused_with_both_lines_but_may_override_what_is_merged() -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml:3: b: given before, in line 2; keep one"):
        foreign("a:\n  b: 1\n  b: 2\n", "f.yaml")
    text = "x: &x {b: 1, c: 2}\na: &a {<<: *x, b: 3}\nz: {<<: *a, c: 4}"
    assert (value(text, "a.b"), value(text, "a.c"), value(text, "z.c")) == (3, 2, 4)


@pytest.mark.parametrize(
    ("text", "read_as"),
    [("${b}", 8), ("${c.d}", "x"), ("n-${b}-${c.d}", "n-8-x"), ("${c.e}", 8), ("\\${b}", "${b}"), ("${c.f[1]}", None)],
)
def test_what_refers_to_the_same_file_is_looked_up(text: str, read_as: Any) -> None:
    found = value(f"a: '{text}'\nb: 8\nc: {{d: x, e: '${{b}}', f: [1, 2]}}", "a")
    assert found == read_as if read_as is not None else isinstance(found, Unresolved)


def test_relative_references_count_from_the_mapping_that_holds_the_key() -> None:
    text = "a: {b: 1, c: '${.b}', d: {e: '${..b}'}}"
    assert (value(text, "a.c"), value(text, "a.d.e")) == (1, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${oc.env:HOME}", "it is in the environment, which is not read"),
        ("${oc.env:HOME,1}", "it is in the environment, which is not read"),
        ("${missing.key}", "missing.key is not in this file"),
        ("${a}", "it refers to itself"),
        ("${multiply:2,3}", "`multiply` is computed when the program starts"),
        ("${x${b}}", "it nests"),
        ("${now:%Y}", "`now` is computed"),
    ],
)
def test_what_can_not_be_looked_up_says_why(text: str, why: str) -> None:
    found = value(f"a: '{text}'\nb: 1", "a")
    assert isinstance(found, Unresolved) and why in found.why and "write the value in its place" in found.why


def test_keys_with_dots_and_overrides_are_paths() -> None:
    text = "a.b: 1\na: {c: 2}\nl: [{x: 1}, {x: 2}]"
    assert foreign(text, "f.yaml").tree == {"a": {"b": 1, "c": 2}, "l": {"0": {"x": 1}, "1": {"x": 2}}}
    changed = foreign(text, "f.yaml", ".yaml", ("a.b=3", "+new.key=1e-3", "~a.c", "++l.1.x=[1, 2]", "~no.such"))
    assert changed.tree == {"a": {"b": 3}, "l": {"0": {"x": 1}, "1": {"x": [1, 2]}}, "new": {"key": 0.001}}


@pytest.mark.parametrize(
    ("text", "suffix", "name"),
    [("a: [", ".yaml", "not_yaml"), ("a = ", ".toml", "not_toml"), ("- 1", ".yaml", "not_a_mapping"),
     ("a: {b: 1, c: 2, b: 3}", ".yaml", "not_yaml"),
     ("a: &x [*x]", ".yaml", "endless"), ("a: !!python/name:os.system x", ".yaml", "not_yaml"),
     ("a: 1", ".json", "unknown_format"), ("", ".yaml", "not_a_mapping")],
)  # fmt: skip
def test_what_can_not_be_read_is_refused_by_name(text: str, suffix: str, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        foreign(text, f"f{suffix}", suffix)
    assert [p.name for p in refused.value.problems] == [name]


def test_aliases_are_written_out_but_not_without_end() -> None:
    assert foreign("a: &x {b: 1}\nc: *x", "f.yaml").tree == {"a": {"b": 1}, "c": {"b": 1}}
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    with pytest.raises(ConfigError, match="has more than"):
        foreign(laughs, "f.yaml")


def test_an_override_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"override 'a\.b': expected key\.path=value"):
        foreign("a: 1", "f.yaml", ".yaml", ("a.b",))


def keys_of(system: str) -> list[str]:
    return [row.key.replace(".**", ".anything").replace("*", "0") for row in SYSTEMS[system].rows]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.floats(), st.text(max_size=8),
    st.sampled_from(["group", "mean_filter", "std_filter", "token", "refresh", "grpo", "${a.b}", "${oc.env:X}"]),
    st.lists(st.one_of(st.integers(0, 9), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)  # fmt: skip


@pytest.mark.parametrize("system", SYSTEMS)
@settings(max_examples=50)
@given(data=st.data())
def test_whatever_the_values_the_import_answers_and_what_it_writes_is_read_back(
    system: str, data: st.DataObject
) -> None:
    known = st.sampled_from(keys_of(system))
    flat = data.draw(st.dictionaries(st.one_of(known, known, st.text(min_size=1, max_size=6)), VALUES, max_size=12))
    found = imported(SYSTEMS[system], of_values(flat, "f"))
    assert parse_yaml(found.text(), "again", {}) == found.tree
    for problem in found.problems():
        assert problem.endswith("]")


WHOLE = {
    "roll": [test_import_roll.WHOLE, test_import_roll.AGENTIC],
    "ragen": [test_import_ragen.WHOLE],
    "miles": [test_import_miles.WHOLE],
}


@pytest.mark.parametrize(("system", "text"), [(system, text) for system, texts in WHOLE.items() for text in texts])
def test_every_key_is_carried_over_or_told_of(system: str, text: str) -> None:
    file = foreign(text, "f", ".toml" if system == "miles" else ".yaml")
    told = imported(SYSTEMS[system], file).text()
    for key, value in file.values.items():
        above = [key_text(key[:end]) + " (" for end in range(1, len(key))]
        assert value is None or key_text(key) in told or any(name in told for name in above), key


def test_a_file_is_named_in_what_is_told_of_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("seed: 3")
    told = imported(SYSTEMS["roll"], read_foreign(path)).text()
    assert told.startswith("# Imported from mine.yaml, a configuration of ROLL.")
