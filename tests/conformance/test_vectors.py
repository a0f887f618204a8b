"""Every committed file of vectors, and the rules by which answers are compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import nextafter
from pathlib import Path
from typing import Any

import pytest

from pipeline.domain.issuing import Issuer

from .__main__ import COMMITTED, main
from .families import filters
from .family import Case, Departure, Excluded, Family, NotCompared, Refused, Vectors, document_of, load
from .runner import family_of, known, run, run_file

FILES = sorted(COMMITTED.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_product_answers_as_recorded(path: Path) -> None:
    result = run_file(path)
    assert result.total > 0
    assert result.mismatches == [], "\n".join(result.lines())


def case(expected: dict[str, Any], **more: Any) -> Case:
    return {"name": "a case", "input": {}, "expected": expected, **more}


def passes(asked: Case, got: dict[str, Any] | Exception, tolerance: dict[str, Any] | None = None) -> bool:
    def answer(_: Case) -> dict[str, Any]:
        if isinstance(got, Exception):
            raise got
        return got

    return run(Vectors("v", [asked], tolerance or {}), Family(answer)).passed == 1


def test_an_error_has_any_clear_refusal_as_its_counterpart() -> None:
    asked = case({"error": "ValueError"})
    assert passes(asked, Refused("an empty group"))
    assert passes(asked, {"keep": False, "refused": "provenance"})
    assert not passes(asked, {"keep": False})
    assert not passes(asked, TypeError("unexpected"))


def test_a_refusal_is_no_answer_where_one_was_recorded() -> None:
    assert not passes(case({"keep": True}), Refused("no"))


def test_where_rounding_decides_each_defensible_answer_is_right() -> None:
    asked = case({"keep": True}, float_sensitive=True, expected_exact={"keep": False})
    assert passes(asked, {"keep": True}) and passes(asked, {"keep": False})
    inside = case({"kept": [0], "kept_float64": [0, 1]}, float_sensitive=True)
    assert passes(inside, {"kept": [0, 1]}) and not passes(inside, {"kept": [1]})
    weights = case({"is_weight": [1.0], "is_weight_float64": [0.9]}, weight_float_sensitive=True)
    assert passes(weights, {"is_weight": [0.9]}) and not passes(weights, {"is_weight": [0.8]})


def test_without_a_second_answer_either_decision_is_right_but_not_any_measurement() -> None:
    asked = case({"keep": True, "std": 0.5}, float_sensitive=True)
    assert passes(asked, {"keep": False, "std": 0.5})
    assert not passes(asked, {"keep": False, "std": 0.6})
    assert not passes(asked, {"keep": None, "std": 0.5})


def test_near_a_threshold_only_the_recorded_answer_is_right() -> None:
    assert not passes(case({"keep": True}, near_threshold=True), {"keep": False})


@pytest.mark.parametrize(("kept", "right"), [([0, 1], True), ([0, 2], True), ([1, 2], False), ([0, 1, 2], False)])
def test_a_tie_keeps_what_it_must_and_takes_any_of_the_pool(kept: list[int], right: bool) -> None:
    expected = {"kept": [0, 1], "kept_rows": [9], "tie_must_keep": [0], "tie_pool": [1, 2], "tie_take": 1}
    assert passes(case(expected, tie=True), {"kept": kept, "kept_rows": [7]}) is right


def test_numbers_have_the_tolerance_of_their_field() -> None:
    stated = {"group_scores": {"abs": 1e-6, "rel": 0.0}, "all": "exact, metrics abs 1e-3"}
    asked = case({"group_scores": [1.0, float("nan")], "metrics": {"a": 2.0}, "kept": [1]})
    assert passes(asked, {"group_scores": [1.0000005, float("nan")], "metrics": {"a": 2.0005}, "kept": [1]}, stated)
    assert not passes(asked, {"group_scores": [1.00001, float("nan")], "metrics": {"a": 2.0}, "kept": [1]}, stated)
    assert not passes(asked, {"group_scores": [1.0, 1.0], "metrics": {"a": 2.0}, "kept": [1]}, stated)
    assert not passes(asked, {"group_scores": [1.0, float("nan")], "metrics": {}, "kept": [1]}, stated)
    assert not passes(case({"keep": True}), {"keep": 1})


def test_what_was_not_recorded_of_an_op_must_not_be_answered() -> None:
    asked = case({"results": [{"counters": 3}]})
    assert passes(asked, {"results": [{"counters": 3, "error": NotCompared("theirs")}]})
    assert not passes(asked, {"results": [{"counters": 3, "error": "cancelled"}]})


def test_what_is_left_out_or_meant_otherwise_is_counted() -> None:
    cases = [case({"keep": True, "n": 1}), case({"keep": True}, kind="other"), case({"keep": True}, quirk=True)]
    family = Family(
        lambda asked: {"keep": "quirk" not in asked, "n": NotCompared("theirs")},
        excluded=[Excluded("another kind", lambda c: c.get("kind") == "other")],
        departures=[Departure("ours wins", lambda c: "quirk" in c, lambda c: {"keep": False})],
    )
    result = run(Vectors("v", cases, {}), family)
    assert (result.passed, result.total) == (2, 2)
    assert "\n".join(result.lines()) == (
        "v: 2 of 2\n  excluded: 1 × another kind\n  answers otherwise on purpose: 1 × ours wins\n"
        "  part not compared: 1 × theirs"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_file_tells_its_family_by_what_is_in_it(path: Path) -> None:
    document, families = document_of(path), known()
    telling = families[path.stem].kinds
    assert family_of(document, "any name" if telling else path.stem) == path.stem
    assert family_of({"cases": [], "family": path.stem}, "zero_std") == path.stem
    assert family_of({"cases": []}, f"{path.stem}_again") == path.stem


def worked(**changed: Any) -> bool:
    """Whether an example of RAGEN's, changed so, is answered as it says."""
    example = {
        "id": "x", "input_kind": "scores", "scores": [3.0, 1.0, 2.0],
        "config": {"strategy": "top_k_abs", "value": 2}, "group_scores": [3.0, 1.0, 2.0], "kept": [0, 2],
        "kept_ranked": [0, 2], "empty_after_filter": False, "kept_scores_sorted": [2.0, 3.0],
    }  # fmt: skip
    family = known()["ragen_worked_examples"]
    document = {"examples": [example | changed]}
    return run(load(Path("ragen_worked_examples.json"), document, family), family).passed == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        {"kept": [0, 1]}, {"kept_ranked": [2, 0]}, {"kept_ranked": [7]}, {"empty_after_filter": True},
        {"group_scores": [3.0, 1.0, 2.1]}, {"group_scores": [3.0, None, 2.0]}, {"kept_scores_sorted": [1.0, 3.0]},
        {"error": "ValueError"}, {"input_kind": "rewards", "rewards": [[0.0, 1.0]] * 3},
    ],
)  # fmt: skip
def test_every_field_of_a_worked_example_is_compared(nonsense: dict[str, Any]) -> None:
    assert worked()
    assert not worked(**nonsense)


TWINS = {"scores": [3.0, 2.0, 2.0], "group_scores": [3.0, 2.0, 2.0]}


@pytest.mark.parametrize(
    "changed",
    [
        TWINS | {"boundary_tie": True, "kept": [0, 1], "kept_ranked": [0, 1]},
        TWINS | {"boundary_tie": True, "kept": [0, 2]},
        {"scores": [3.0, 1.0, 3.0], "group_scores": [3.0, 1.0, 3.0], "kept_ranked": [2, 0],
         "kept_scores_sorted": [3.0, 3.0]},
        {"float_sensitive": True, "kept": [0], "kept_ranked": [0], "kept_scores_sorted": [3.0]},
        {"config": {"strategy": "median"}, "error": "ValueError"},
        {"input_kind": "lengths", "lengths": [[3, 3], [1, 1], [1, 3]], "kept_rows": [0, 1, 4, 5],
         "config": {"strategy": "top_k_abs", "value": 2, "metric": "length"}},
        {"input_kind": "entropies", "entropies": [[[3.0], [2.0, 4.0]], [[1.0], [1.0]], [[2.0], [2.0]]],
         "config": {"strategy": "top_k_abs", "value": 2, "metric": "entropy"}},
    ],
)  # fmt: skip
def test_a_worked_example_may_be_of_every_form_that_its_file_describes(changed: dict[str, Any]) -> None:
    assert worked(**changed)


def test_of_twins_at_the_cut_as_many_must_be_kept() -> None:
    tie = TWINS | {"boundary_tie": True, "kept": [0, 1, 2], "kept_scores_sorted": [2.0, 3.0]}
    assert not worked(**tie) and not worked(**tie | {"kept": [0, 1], "kept_scores_sorted": [2.0, 2.0]})


def constant(expected: dict[str, Any], *rewards: float, policy: str = "slime") -> tuple[int, int]:
    """How many of one such case of zero_std are right, and how many of them on purpose otherwise than recorded."""
    asked = case(expected)
    asked = {**asked, "input": {"policy": policy, "samples": [{"reward": r} for r in rewards], "args": {}}}
    result = run(Vectors("v", [asked], {}), known()["zero_std"])
    return result.passed, sum(result.departed.values())


def test_only_what_overflows_is_refused_for_its_size() -> None:
    assert constant({"keep": False, "reason": "zero_std_1e+200"}, 1e200, 1e200, 1e200) == (1, 0)
    assert constant({"keep": True, "reason": None}, 2e154, 2e154, 1e154) == (1, 0)
    assert constant({"keep": True, "reason": None}, 1e200, -1e200) == (1, 1)
    assert constant({"keep": False, "reason": "zero_std_1.7e+308"}, 1.7e308, 1.7e308) == (1, 1)
    assert constant({"keep": True, "reason": None}, 1.7e308, 1.7e308, policy="miles_no_aborted") == (1, 1)


def test_the_label_is_of_the_lowest_reward_and_a_strange_one_is_a_mismatch_by_itself() -> None:
    assert constant({"keep": False, "reason": "zero_std_0.1"}, 0.0500004, 0.0499999) == (1, 1)
    assert constant({"keep": False, "reason": "zero_std_0.0"}, 0.0499999, 0.0500004) == (1, 0)
    assert constant({"keep": False, "reason": "zero_std_0.7"}, 0.0500004, 0.0499999) == (0, 0)
    assert constant({"keep": False, "reason": "zero_std_high"}, 1.0, 1.0) == (0, 0)


def test_a_predicate_that_fails_loses_its_case_alone() -> None:
    def odd(asked: Case) -> bool:
        return bool(float(asked["input"].get("n", "odd")))

    cases = [case({"keep": True}), {**case({"keep": True}), "input": {"n": 1}}]
    result = run(Vectors("v", cases, {}), Family(lambda asked: {"keep": True}, departures=[Departure("odd", odd)]))
    assert (result.passed, result.total) == (1, 2) and "can't be read: ValueError" in result.mismatches[0][2]


def test_a_correction_filter_without_a_level_is_by_token() -> None:
    path = COMMITTED / "train_infer_correction.json"
    document = dict(document_of(path))
    for one in document["cases"]:
        for filter in one["input"]["config"].get("filters", []):
            if filter.get("agg_type") == "token":
                del filter["agg_type"]
    family = known()["train_infer_correction"]
    assert run(load(path, document, family), family).mismatches == []


def a_pass_rate_that_must_be_exceeded(patch: pytest.MonkeyPatch) -> None:
    note = Issuer.note_pass_rate

    def noted(self: Issuer, *given: Any) -> None:
        if (least := self.rules.exclude_above_pass_rate) is not None:
            self.rules = replace(self.rules, exclude_above_pass_rate=nextafter(least, 2.0))
        note(self, *given)

    patch.setattr(Issuer, "note_pass_rate", noted)


def a_solved_prompt_that_comes_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Issuer, "note_pass_rate", lambda *given: None)


def a_pass_rate_of_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "pass_rate", lambda scores: scores.reward_sum)


@pytest.mark.parametrize(
    "change", [a_pass_rate_that_must_be_exceeded, a_solved_prompt_that_comes_again, a_pass_rate_of_sums]
)
def test_a_product_that_leaves_out_other_prompts_is_told(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    change(monkeypatch)
    assert run_file(COMMITTED / "zero_std.json").mismatches


def test_kinds_of_another_family_are_told_before_the_name_and_strange_ones_are_not() -> None:
    cases = [{"name": "a", "input": {"kind": kind}, "expected": {}} for kind in ("guard", "queue")]
    assert family_of({"cases": cases}, "zero_std") == "roll_agentic_group_filter"
    assert family_of({"cases": [*cases, {"input": {"kind": "strange"}}]}, "zero_std") == "zero_std"
    with pytest.raises(ValueError, match="give --family, one of advantages, "):
        family_of({"cases": [*cases, 3]}, "my_zero_std")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("zero_std", "{", "redundant|Expecting"),
        ("zero_std", "[]", "holds a list; expected an object with `cases`"),
        ("zero_std", "{}", "not of the form of this family: KeyError"),
        ("zero_std", '{"cases": [3]}', "case 0 is no object"),
        ("zero_std", '{"cases": [{"name": "x", "expected": {}}]}', "can't be read: KeyError"),
        (
            "redundancy",
            '{"cases": [{"name": "x", "input": {"kind": "new"}, "expected": {}}]}',
            "raised KeyError: 'new'",
        ),
        ("strange", '{"cases": []}', "strange: neither `family` in it, nor the kinds of its cases, nor its name"),
        ("zero_std", '{"cases": [], "family": "other"}', "family 'other' is unknown; known are advantages, "),
        ("zero_std", '{"cases": []}', "zero_std: 0 of 0"),
    ],
)
def test_a_file_that_cannot_be_compared_is_told_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, text: str, told: str
) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(text)
    monkeypatch.setattr("sys.argv", ["tests.conformance", str(path)])
    assert main() == 1
    captured = capsys.readouterr()
    assert re.search(told.replace("(", r"\("), captured.out + captured.err)
