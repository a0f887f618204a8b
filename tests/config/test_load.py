from pathlib import Path

import pytest

from pipeline.config import ConfigError, load

EXAMPLES = Path(__file__).parents[2] / "examples"


def refused(load_it):
    with pytest.raises(ConfigError) as error:
        load_it()
    return list(error.value.problems)


def test_all_errors_are_found_at_once_each_with_its_line(written, tmp_path):
    found = refused(lambda: written("group_sise: 4\nassembly:\n  lase: 3\nevaluation:\n  samples: 0"))
    assert [(p.where, p.path) for p in found] == [(f"{tmp_path}/run.yaml:6", ("group_sise",))]
    found = refused(lambda: written("seed: -1\nassembly:\n  lase: 3\nevaluation:\n  samples: 0"))
    assert [(p.where.removeprefix(f"{tmp_path}/run.yaml:"), p.path) for p in found] == [
        ("6", ("seed",)),
        ("8", ("assembly", "lase")),
        ("10", ("evaluation", "samples")),
    ]


def test_an_unknown_key_names_the_nearest_one(written, tmp_path):
    (problem,) = refused(lambda: written("assembly:\n  count: any\n  lese: 3"))
    assert str(problem) == (
        f"{tmp_path}/run.yaml:8: assembly.lese: unknown key 'lese'; did you mean 'lease'? [unknown_key]"
    )


def test_an_unknown_key_with_no_near_one_lists_all(written):
    (problem,) = refused(lambda: written("advantages: {zzz: 3}"))
    assert problem.message == "unknown key 'zzz'; expected one of: eps, exclude_truncated, kind"


def test_an_internal_name_is_no_key(written):
    (problem,) = refused(lambda: written("assembly: {lease_ms: 3}"))
    assert problem.name == "unknown_key"


def test_an_unknown_filter_names_the_nearest_one(written, tmp_path):
    (problem,) = refused(lambda: written("filters:\n  default:\n    - type: zero_sd"))
    assert str(problem).startswith(f"{tmp_path}/run.yaml:8: filters.default[0].type: unknown type 'zero_sd'; did you ")


@pytest.mark.parametrize(
    ("line", "path", "hint"),
    [
        ("filters: {default: [zero_std]}", ("filters", "default", 0), "expected keys and values"),
        ("filters: {default: [{tol: 1}]}", ("filters", "default", 0), "`type` among them"),
        ("filters: {default: []}", ("filters", "default"), "at least 1"),
        ("filters: {default: {type: no_filter}}", ("filters", "default"), "expected a list"),
        ("domains: {}", ("domains",), "at least 1"),
        (
            "domains: {a b: {quota: 1}}",
            ("domains", "a b"),
            "'a b' is no name; expected 1 to 63 of A-Z, a-z, 0-9, _ and -",
        ),
        ("domains: {a: 3}", ("domains", "a"), "expected keys and values"),
        ("engine: {factory: somewhere}", ("engine", "factory"), "package.module:attribute"),
        ("engine: {options: {}}", ("engine", "factory"), "missing"),
        ("run: Run", ("run",), "'Run' is no name of a run; expected 1 to 63 of a-z, 0-9, _ and -"),
        (f"run: r{'x' * 63}", ("run",), "1 to 63"),
        ("replacement: other", ("replacement",), "'next_prompt'"),
        ("async_ratio: -0.5", ("async_ratio",), "greater than or equal to 0"),
        ("seed: 9223372036854775808", ("seed",), "less than"),
        ("partitions: 0", ("partitions",), "greater than or equal to 1"),
        ("payload: {max: 64 potatoes}", ("payload", "max"), "64MB"),
        ("payload: {max: 0}", ("payload", "max"), "greater than 0"),
        ("payload: {max: true}", ("payload", "max"), "True is no size"),
        ("assembly: {lease: -1}", ("assembly", "lease"), "no duration"),
        ("assembly: {lease: true}", ("assembly", "lease"), "True is no duration"),
        ("assembly: {lease: 0}", ("assembly", "lease"), "greater than 0"),
        ("response_filter: [{type: invalid_format, pattern: '('}]", ("response_filter", 0, "pattern"), "regular"),
        ("response_filter: [{type: max_repetition, share: 2}]", ("response_filter", 0, "share"), "less than or equal"),
        ("domains: {math: {quota: 0}}", ("domains", "math", "quota"), "greater than or equal to 1"),
    ],
)
def test_a_wrong_value_is_refused_at_its_place(written, line, path, hint):
    (problem,) = refused(lambda: written(line))
    assert problem.path == path
    assert hint in problem.message


@pytest.mark.parametrize("key", ["run", "steps", "prompts", "engine", "learner"])
def test_what_has_no_default_must_be_given(written, key):
    (problem,) = refused(lambda: written(f"{key}:"))
    assert (problem.name, problem.path) == ("missing", (key,))


def test_null_means_the_default(written):
    assert written("max_staleness: null\nfilters: null\nassembly: {lease: null}") == written("seed: 0")


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("250ms", 250), ("0.5", 500), ("7", 7000)]
)
def test_a_duration_is_seconds_or_has_a_unit(written, text, ms):
    assert written(f"tick: {text}").tick_ms == ms


@pytest.mark.parametrize(
    ("text", "size"), [("64MB", 64_000_000), ("64MiB", 67_108_864), ("1.5 kb", 1500), ("4096", 4096), ("2GiB", 2**31)]
)
def test_a_size_is_bytes_or_has_a_unit(written, text, size):
    assert written(f"payload: {{max: {text}}}").payload.max_bytes == size


def test_an_override_beats_the_file_and_is_read_as_yaml(written):
    config = written(
        "filters: {default: [{type: zero_std, tol: 1}]}",
        ("seed=3", "filters.default.0.tol=1e-6", "assembly.lease=5s", "domains.code={quota: 2}", "run='7'"),
    )
    assert (config.seed, config.filters["default"][0].tol, config.assembly.lease_ms) == (3, 1e-6, 5000)
    assert list(config.domains) == ["math", "code"]
    assert config.run == "7"


@pytest.mark.parametrize(
    ("override", "name", "path"),
    [
        ("seed", "bad_override", ()),
        ("=3", "bad_override", ()),
        ("a..b=3", "bad_override", ()),
        ("seed.x=3", "bad_override", ("seed", "x")),
        ("filters.default.4.tol=3", "bad_override", ("filters", "default", 4, "tol")),
        ("sede=3", "unknown_key", ("sede",)),
        ("seed=010", "leading_zero", ("seed",)),
        ("domains.1.quota=x", "int_type", ("domains", "1", "quota")),
    ],
)
def test_a_wrong_override_is_named_as_such(written, override, name, path):
    text = "seed: 1\nfilters: {default: [{type: zero_std}]}"
    (problem,) = refused(lambda: written(text, (override,)))
    assert (problem.name, problem.path, problem.where) == (name, path, f"override {override!r}")


def test_a_place_that_an_override_replaced_is_not_taken_for_the_file(written):
    (problem,) = refused(lambda: written("assembly: {lease: 3}", ("assembly={lease: x}",)))
    assert problem.where.startswith("override")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("run.json", b"{}", "unknown_format"),
        ("run.yaml", b"\xff\xfe", "not_utf8"),
        ("run.yaml", b"", "not_a_mapping"),
        ("run.yaml", b"- 1", "not_a_mapping"),
        ("gone.yaml", None, "unreadable"),
        ("run.toml", b"x = ", "not_toml"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, content, expected):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    (problem,) = refused(lambda: load(path))
    assert (problem.name, problem.where) == (expected, str(path))
    assert "nothing is in it; expected keys and values" in problem.message or content != b""


def test_a_byte_order_mark_changes_nothing(written, tmp_path):
    plain = written("seed: 1")
    path = tmp_path / "run.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load(path) == plain


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_pass(path):
    load(path)


def test_there_is_an_example():
    assert list(EXAMPLES.glob("*.yaml"))
