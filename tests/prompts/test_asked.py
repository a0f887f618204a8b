"""A prompt source of a user's own may do anything; who asks it is told which source, which call, and what to mend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline import plugins
from pipeline.config.check import check_source
from pipeline.config.errors import ConfigError
from pipeline.config.load import parse
from pipeline.prompts.asked import Asked
from pipeline.sdk import Task, VerifierBinding
from tests.bad_code import ERRORS, Shy, raising, returning

TASK = Task("one", "2 + 2 =", (1, 2), (VerifierBinding("exact", "4", 1.0),), {"level": 1})


class Own:
    content_hash = "abc"

    def __init__(self, seed: int = 0, options: Any = None, **changed: Any) -> None:
        self.__dict__.update(changed)

    def domains(self):
        return ["maths"]

    def size(self, domain):
        return 1

    def at(self, domain, ordinal, epoch):
        return TASK


def asked(**changed: Any) -> Asked:
    return Asked(Own(**changed), "shop.prompts:Own", "prompts")


def test_a_source_that_keeps_its_word_is_as_it_was():
    source = asked(verifiers={"exact": "row 1"})
    assert (source.content_hash, source.domains(), source.size("maths")) == ("abc", ("maths",), 1)
    assert source.at("maths", 0, 0) is TASK
    assert source.verifiers == {"exact": "row 1"} and getattr(source, "left_out", {}) == {}


CALLS = {"domains": (), "size": ("maths",), "at": ("maths", 0, 0)}


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize(("error", "told"), ERRORS.values(), ids=ERRORS)
def test_whatever_it_raises_is_told_with_its_name_and_the_call(method: str, error: BaseException, told: str):
    with pytest.raises(ConfigError) as refused:
        getattr(asked(**{method: raising(error)}), method)(*CALLS[method])
    said = str(refused.value)
    call = f"{method}({', '.join(map(repr, CALLS[method]))})"
    assert said.startswith(f"prompts.factory: shop.prompts:Own: {call} raised {told}")
    assert said.endswith("; mend the source [source_failed]")


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("domains", None, r"domains\(\) gave None; expected the names of domains"),
        ("domains", "maths", r"domains\(\) gave 'maths'; expected the names"),
        ("domains", [1], r"domains\(\) named 1, of type int; expected text"),
        ("size", "3", r"size\('maths'\) gave '3'; expected a whole number"),
        ("size", -1, r"size\('maths'\) gave -1; expected a whole number of at least 0"),
        ("size", True, r"size\('maths'\) gave True"),
        ("size", Shy(), r"size\('maths'\) gave \(Shy, whose text raised"),
        ("at", None, r"at\('maths', 0, 0\) gave None; expected a pipeline.sdk.Task"),
        ("at", replace(TASK, id=7), r"a task whose id is 7; expected text"),
        ("at", replace(TASK, text=None), r"can't be written down: BadTask: task 'one': expected a text"),
        ("at", replace(TASK, token_ids="ab"), r"can't be written down: ValueError: invalid literal"),
        ("at", replace(TASK, metadata={"a": float("nan")}), r"can't be written down: BadTask: .*JSON"),
        ("at", replace(TASK, verifiers=(VerifierBinding("x", "", True),)), "the weight of 'x' is True; expected"),
    ],
)
def test_what_is_no_answer_is_refused(method: str, answer: Any, told: str):
    with pytest.raises(ConfigError, match=told):
        getattr(asked(**{method: returning(answer)}), method)(*CALLS[method])


def test_names_that_fail_on_their_way_are_told_too():
    names = (name / 0 for name in (1,))
    with pytest.raises(ConfigError, match=r"domains\(\) raised ZeroDivisionError"):
        asked(domains=returning(names)).domains()


def test_nobody_takes_an_interrupt_for_a_fault_of_the_source():
    with pytest.raises(KeyboardInterrupt):
        asked(size=raising(KeyboardInterrupt())).size("maths")


def failing(seed: int, options: dict[str, Any]) -> Own:
    return Own(domains=raising(ConnectionError("no answer")))


@pytest.mark.parametrize("key", ["prompts", "eval_prompts"])
def test_a_run_is_checked_with_sources_that_are_asked(key: str):
    plugin = {"factory": "tests.prompts.test_asked:Own"}
    least = {"run": "r", "steps": 1, "prompts": plugin, "engine": plugin, "learner": plugin}
    own = {key: {"factory": "tests.prompts.test_asked:failing"}}
    config = parse({**least, "domains": {"maths": {"quota": 1}}, "eval_prompts": plugin, **own})
    with pytest.raises(ConfigError, match=rf"^{key}\.factory: tests.*:failing: domains\(\) raised ConnectionError: no"):
        check_source(config, getattr(plugins, key)(config), key)
