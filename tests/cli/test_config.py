"""A configuration that can't be used is refused before anything is made, with its place and what to write instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pipeline.config import canonical, load
from tests.e2e.harness import BASE

from .conftest import Tamis

Write = Callable[..., Path]


def problem(tamis: Tamis, path: Path, *words: str) -> str:
    """The sentence that `init` refuses it with."""
    answer = tamis("init", path, *words)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    return answer.err.removeprefix("error: ").rstrip()


def test_an_unknown_key_is_named_with_the_nearest_that_exists(offline: Tamis, write: Write) -> None:
    path = write(gruop_size=4)
    assert problem(offline, path).endswith(
        "gruop_size: unknown key 'gruop_size'; did you mean 'group_size'? [unknown_key]"
    )


def test_a_wrong_type_is_named_with_its_line_its_value_and_what_is_expected(offline: Tamis, write: Write) -> None:
    path = write(group_size="many")
    line = path.read_text().splitlines().index("group_size: many") + 1
    found = problem(offline, path)
    assert found.startswith(f"{path}:{line}: group_size: is 'many'") and "expected" in found


def test_every_problem_is_told_at_once(offline: Tamis, write: Write) -> None:
    found = problem(offline, write(seed=-1, steps=0)).splitlines()
    assert len(found) == 2
    assert "seed: is -1; expected greater than or equal to 0" in found[0]
    assert "steps: is 0; expected greater than or equal to 1" in found[1]


def test_an_override_is_named_as_where_a_value_came_from(offline: Tamis, write: Write) -> None:
    found = problem(offline, write(), "--set", "steps=none")
    assert "steps=none" in found and "steps" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("assembly: {deadline: 12:30}", "assembly.deadline"),
        ("starvation: no", "starvation: is 'no'"),
        ("group_size: 010", "group_size: 010 begins with 0; write 10"),
        ("filters: {default: [{type: zero_std, tol: .nan}]}", "tol: .nan is refused; expected a finite number"),
    ],
)
def test_a_scalar_that_could_be_misread_is_refused_where_it_stands(
    offline: Tamis, write: Write, text: str, said: str
) -> None:
    tree = {**BASE, "run": "first"}
    tree.pop(text.partition(":")[0], None)
    base = yaml.safe_dump(tree)
    path = write(f"{base}{text}\n")
    found = problem(offline, path)
    assert said in found
    assert found.startswith(f"{path}:{len(base.splitlines()) + 1}:")


def test_numbers_are_understood_as_they_are_written(offline: Tamis, write: Write) -> None:
    text = write(run="x", async_ratio=1, seed=7).read_text()
    text = text.replace("async_ratio: 1", "async_ratio: 1e0").replace("seed: 7", "seed: 1_000").replace(
        "run: x", "run: 2026_03_01"
    )  # fmt: skip
    path = write(text + "filters: {default: [{type: zero_std, tol: 1e-8}]}\nadvantages: {eps: 1e-4}\n")
    shown = offline("config", "show", path, "--json")
    found = {name: row["value"] for name, row in json.loads(shown.out)["decisions"].items()}
    assert shown.code == 0
    assert (found["run"], found["seed"], found["async_ratio"]) == ("2026_03_01", 1000, 1.0)
    assert (found["filters.default"][0]["tol"], found["advantages.eps"]) == (1e-8, 1e-4)


def test_a_domain_called_on_stays_a_text(offline: Tamis, write: Write) -> None:
    path = write(write(domains=None).read_text().replace("domains: null", "domains: {on: {quota: 2}}"))
    assert json.loads(offline("config", "show", path, "--json").out)["decisions"]["domains.on.quota"]["value"] == 2


def test_what_is_shown_says_where_it_comes_from(offline: Tamis, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMIS_REDIS_URL", "redis://:geheim@here:6379/0")
    path = write(run="x", engine={"factory": "a:B", "options": {"api_key": "geheim", "max_tokens": 7}})
    answer = offline("config", "show", path, "--set", "assembly.lease=90s", "--json")
    assert (answer.code, "geheim" in answer.out + answer.err) == (0, False)
    found = json.loads(answer.out)
    assert found["decisions"]["run"] == {"value": "x", "from": f"{path}:{line_of(path, 'run: x')}"}
    assert found["decisions"]["assembly.lease"] == {"value": "90s", "from": "override 'assembly.lease=90s'"}
    assert found["decisions"]["metric"] == {"value": "reward", "from": "default"}
    assert found["decisions"]["engine.options.api_key"]["value"] == "***"
    assert found["decisions"]["engine.options.max_tokens"]["value"] == 7
    assert found["processes"]["redis_url"] == {"value": "redis://***@here:6379/0", "from": "TAMIS_REDIS_URL"}
    assert "engine.options.api_key: looks like a secret" in offline("config", "check", path).err


@pytest.mark.parametrize(
    "assignment",
    [
        "engine.options.api_key=geheim",
        "engine.options.password=73577357",
        'engine.options.hub={"a":[{"api_key":"geheim"}]}',
        'engine.options.headers={"Authorization":"Bearer geheim"}',
        "engine.options.access_key=geheim",
        "engine.options.url=https://user:geheim@host/x",
    ],
)
def test_no_secret_is_shown_nor_where_it_comes_from(offline: Tamis, write: Write, assignment: str) -> None:
    for words in ((), ("--json",)):
        answer = offline("config", "show", write(run="x"), "--set", assignment, *words)
        assert answer.code == 0 and "***" in answer.out
        assert "geheim" not in answer.out and "73577357" not in answer.out
    assert "looks like a secret" in offline("config", "check", write(run="x"), "--set", assignment).err


def test_the_environment_is_named_where_it_decides(
    offline: Tamis, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMIS_ON_FAILURE", "zero")
    path = write(run="x", verifiers={"exact": {"factory": "pipeline.verifiers.exact:ExactMatch"}})
    found = json.loads(offline("config", "show", path, "--json").out)["decisions"]
    assert found["verifiers.exact.on_failure"] == {"value": "zero", "from": "TAMIS_ON_FAILURE"}


def test_what_is_shown_is_the_same_configuration(offline: Tamis, write: Write) -> None:
    path = write(run="x", assembly={"lease": "90s", "deadline": "10m"}, payload={"budget": "1GB"})
    again = write(offline("config", "show", path).out, name="again.yaml")
    assert canonical(load(again)) == canonical(load(path))


def line_of(path: Path, text: str) -> int:
    return path.read_text().splitlines().index(text) + 1


def test_a_good_configuration_is_called_good(offline: Tamis, write: Write) -> None:
    answer = offline("config", "check", write())
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("run.yaml: a run called first can be made of it\n")


def test_prompts_that_lack_a_domain_or_name_an_unknown_verifier_are_told_by_a_check(
    offline: Tamis, write: Write, home: Path
) -> None:
    sorting = {"factory": "pipeline.prompts.sorting:SortingPrompts", "options": {"domain": "a"}}
    two = {name: {"quota": 1} for name in ("a", "b")}
    answer = offline("config", "check", write(prompts=sorting, domains=two))
    assert answer.code == 2 and "domains.b: prompts has none for it; expected one of: a" in answer.err
    (home / "p.jsonl").write_text(
        '{"id": "1", "prompt": "2+3?", "verifiers": [{"name": "other", "target": "5"}], "domain": "a"}\n'
    )
    of_a_file = {"factory": "pipeline.prompts.jsonl:JsonlPrompts", "options": {"path": "p.jsonl"}}
    found = json.loads(offline("config", "check", write(prompts=of_a_file, domains={"a": {"quota": 1}}), "--json").out)
    assert ["'other', which is not configured" in told for told in found["problems"]] == [True], found


def test_a_check_answers_in_one_form_whatever_it_found(offline: Tamis, write: Write) -> None:
    good = json.loads(offline("config", "check", write(), "--json").out)
    assert good == {"run": "first", "problems": [], "cautions": []}
    answer = offline("config", "check", write(steps=0), "--json")
    bad = json.loads(answer.out)
    assert (answer.code, bad["run"], bad["cautions"], len(bad["problems"])) == (2, None, [], 1)
    answer = offline("config", "check", write("# to do\n", "empty.yaml"))
    assert answer.err.endswith("empty.yaml: nothing is in it; expected keys and values [not_a_mapping]\n")


def test_what_is_probably_not_meant_is_a_caution(offline: Tamis, write: Write) -> None:
    path = write(group_size=1, filters={"default": [{"type": "no_filter"}]})
    answer = offline("config", "check", path)
    assert answer.code == 0
    assert answer.err.startswith("caution: group_size: is 1: a group of one has no baseline")
    assert answer.err.endswith("[no_baseline]\n")


def test_a_module_that_is_not_here_is_a_caution(offline: Tamis, write: Write) -> None:
    answer = offline("config", "check", write(engine={"factory": "my_package.model:Engine"}))
    assert answer.code == 0
    assert answer.err == (
        "caution: engine.factory: there is no module 'my_package' here for my_package.model:Engine; its process needs "
        "it: write or install it [module_not_found]\n"
    )


def test_a_prompt_file_that_is_not_here_is_a_caution(offline: Tamis, write: Write) -> None:
    prompts = {"factory": "pipeline.prompts.jsonl:JsonlPrompts", "options": {"path": "nowhere.jsonl"}}
    answer = offline("config", "check", write(prompts=prompts))
    assert answer.code == 0
    assert "prompts.options.path: there is no file 'nowhere.jsonl' here; tamis init" in answer.err


@pytest.mark.parametrize("value", ["True", "False"])
def test_a_redis_url_that_decodes_replies_is_refused_by_the_options_name(
    offline: Tamis, write: Write, value: str
) -> None:
    url = f"redis://:secret@127.0.0.1:6379/0?decode_responses={value}"
    found = problem(offline, write(), "--redis-url", url)
    assert found.startswith("--redis-url: the option decode_responses is refused: payloads are bytes")
    assert "secret" not in found


def test_a_file_that_is_no_yaml_is_refused_with_its_line(offline: Tamis, write: Write) -> None:
    assert problem(offline, write("run: first\nsteps: ]\n")).startswith(f"{write('')}:2: ")


def test_a_missing_file_is_named(offline: Tamis) -> None:
    answer = offline("init", "nowhere.yaml")
    assert answer.code == 2
    assert "nowhere.yaml" in answer.err and "does not exist" in " ".join(answer.err.replace("│", " ").split())
