"""What a person wrote is what runs, or it is refused where it stands (cases 39 and its kind)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import ConfigError, filter_hashes, load
from pipeline.config.yaml12 import parse_yaml


def value(text):
    return parse_yaml(text, "f", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-4", 0.0001),
        ("1e-8", 1e-8),
        ("1.0e-8", 1e-8),
        ("1e0", 1.0),
        ("-1.5E+3", -1500.0),
        (".5", 0.5),
        ("7.", 7.0),
        ("0", 0),
        ("-3", -3),
        ("1_000", 1000),
        ("12_345_678", 12_345_678),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("2026_03_01", "2026_03_01"),
        ("1_00", "1_00"),
        ("2026-03-01", "2026-03-01"),
        ("12:30", "12:30"),
        ("1:30:00", "1:30:00"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("nan", "nan"),
        ("1e", "1e"),
        ('"010"', "010"),
        ("'1'", "1"),
        ("0b101", "0b101"),
        ("=", "="),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(text, expected):
    found = value(text)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("010", "leading_zero", "write 10"),
        ("-007", "leading_zero", "write -7"),
        ("00", "leading_zero", "write 0"),
        (".nan", "not_finite", "finite"),
        ("-.inf", "not_finite", "finite"),
        ("1e999", "not_finite", "finite"),
        ("!!int 010", "bad_scalar", "tag"),
        ("!!python/name:os.system x", "unknown_tag", "leave it out"),
        ("!!set {a: }", "unknown_tag", "leave it out"),
        ("!!timestamp 2026-03-01", "unknown_tag", "leave it out"),
    ],
)
def test_a_misleading_scalar_is_refused_with_its_line_and_key(text, name, hint):
    with pytest.raises(ConfigError) as error:
        value(f"a:\n  - b: 1\n  - b: {text}\n")
    (problem,) = error.value.problems
    assert (problem.name, problem.where, problem.path) == (name, "f:3", ("a", 1, "b"))
    assert hint in problem.message


@pytest.mark.parametrize(
    ("text", "name", "where"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate_key", "f:3"),
        ("a: {b: 1, b: 1}\n", "duplicate_key", "f:1"),
        ("a: 1\n1: 2\n", "key_not_text", "f:2"),
        ("a: 1\ntrue: 2\n", "key_not_text", "f:2"),
        ("? [a]\n: 1\n", "key_not_text", "f:1"),
        ("a: &x [1]\nb: *x\n", "alias", "f:1"),
        ("a: &x [*x]\n", "alias", "f:1"),
        ("a: [1\n", "not_yaml", "f:2"),
        ("a: 1\n---\nb: 1\n", "not_yaml", "f:2"),
        ("a: \x07\n", "not_yaml", "f"),
        ("[" * 2000, "not_yaml", "f"),
    ],
)
def test_a_misleading_structure_is_refused_with_its_line(text, name, where):
    with pytest.raises(ConfigError) as error:
        value(text)
    (problem,) = error.value.problems
    assert (problem.name, problem.where) == (name, where)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_that_python_writes_is_read_back(number):
    assert value(repr(number)) == number
    assert type(value(repr(number))) is float


@given(st.integers())
def test_every_integer_is_read_back(number):
    assert value(str(number)) == number


def test_a_run_name_with_underscores_stays_text(written):
    assert written("run: 2026_03_01").run == "2026_03_01"


def test_a_domain_may_be_called_on(written):
    assert list(written("domains:\n  on: {quota: 2}").domains) == ["on"]


@pytest.mark.parametrize(
    ("line", "path", "hint"),
    [
        ("assembly: {deadline: 12:30}", ("assembly", "deadline"), "'12:30' is no duration"),
        ("starvation: no", ("starvation",), "'no'; expected keys and values"),
        ("group_size: 010", ("group_size",), "write 10"),
        ("filters: {default: [{type: zero_std, tol: .nan}]}", ("filters", "default", 0, "tol"), "finite"),
        ("run: 20260301", ("run",), "quote it"),
        ("steps: '10'", ("steps",), "text"),
        ("steps: 1_0", ("steps",), "text"),
        ("seed: true", ("seed",), "true or false"),
        ("steps: 10.0", ("steps",), "a number with a point"),
        ("async_ratio: yes", ("async_ratio",), "text"),
    ],
)
def test_a_wrong_scalar_is_an_error_with_file_line_key_and_what_is_expected(written, tmp_path, line, path, hint):
    with pytest.raises(ConfigError) as error:
        written(line)
    (problem,) = error.value.problems
    assert (problem.where, problem.path) == (f"{tmp_path}/run.yaml:6", path)
    assert hint in problem.message


def toml(tmp_path: Path, extra: str):
    plugins = "".join(f'[{name}]\nfactory = "somewhere:Something"\n' for name in ("prompts", "engine", "learner"))
    path = tmp_path / "run.toml"
    path.write_text(f'{extra}\nrun = "r"\nsteps = 1_000\n{plugins}[domains.math]\nquota = 4\n')
    return load(path)


def test_the_filter_hash_is_the_same_however_the_number_is_written(written, tmp_path):
    chain = "filters: {default: [{type: zero_std, tol: %s}]}"
    hashes = [filter_hashes(written(chain % text)) for text in ("1e-8", "1.0e-8", "0.00000001")]
    hashes.append(filter_hashes(written("seed: 1")))
    hashes.append(filter_hashes(toml(tmp_path, 'filters.default = [{type = "zero_std", tol = 1e-8}]')))
    assert len({h["math"] for h in hashes}) == 1
    assert filter_hashes(written(chain % "1e-6")) != hashes[0]


def test_toml_reads_the_same_as_yaml(written, tmp_path):
    assert toml(tmp_path, "") == written("steps: 1000")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("seed = nan", "not_finite"),
        ("seed = [1, {a = -inf}]", "not_finite"),
        ("seed = 2026-03-01", "not_plain"),
        ("seed = 12:30:00", "not_plain"),
        ("seed = 010", "not_toml"),
        ("seed = 1\nseed = 2", "not_toml"),
        ("seed = true", "int_type"),
    ],
)
def test_toml_is_as_strict(tmp_path, line, name):
    with pytest.raises(ConfigError) as error:
        toml(tmp_path, line)
    (problem,) = error.value.problems
    assert problem.name == name
    assert problem.where == f"{tmp_path}/run.toml"
