"""Correction, loss and sample masks: what is recorded of them, and what is refused."""

import json

import pytest

from pipeline.config import canonical, cautions, parse_canonical, resolve_budget

ALL = {
    "correction": {
        "filters": [{"level": "segment", "ratio_low": 0.9, "diff_enabled": True}, {"ratio_enabled": False}],
        "weight": {"weight_type": "sequence", "upper": "none"},
        "catastrophic": 1e-3,
        "denominator": "original",
    },
    "loss": {"aggregation": "seq-mean-token-sum-norm", "impl": "roll", "divisor": 1024, "clip_high": 1.3},
    "sample_masks": {"difficulty_mask": {"low": 0.1}, "max_len_mask": True, "error_max_len_clip": 512},
}


def test_sections_that_are_absent_are_not_recorded(config):
    tree = json.loads(canonical(resolve_budget(config(), 64 * 2**30)))
    assert not ALL.keys() & tree.keys()


@pytest.mark.parametrize("sections", [ALL, {"correction": {}}, {"loss": {}}, {"sample_masks": {}}])
def test_what_is_set_is_recorded_with_every_default_and_read_back(config, sections):
    made = resolve_budget(config(**sections), 64 * 2**30)
    text = canonical(made)
    again = parse_canonical(text)
    assert [getattr(again, name) for name in ALL] == [getattr(made, name) for name in ALL]
    assert canonical(again) == text and ALL.keys() & json.loads(text).keys() == sections.keys()


def test_the_defaults_are_those_of_roll(config):
    made = config(correction={"filters": [{}], "weight": {}})
    assert made.correction.filters[0].model_dump() == {
        "level": "token",
        "ratio_enabled": True,
        "ratio_low": 0.8,
        "ratio_high": 1.2,
        "diff_enabled": False,
        "diff_low": -0.2,
        "diff_high": 0.2,
    }
    assert made.correction.weight.model_dump() == {"weight_type": "token", "lower": 0.0, "upper": 1.2}
    assert (made.correction.catastrophic, made.correction.denominator) == (None, "corrected")


@pytest.mark.parametrize(
    ("sections", "key", "value"),
    [
        ({"correction": {"filters": [{}, {"ratio_low": 1.5}]}}, "correction.filters[1].ratio_low", "1.5"),
        ({"correction": {"filters": [{"diff_low": 0.1, "diff_high": 0}]}}, "correction.filters[0].diff_low", "0.1"),
        ({"correction": {"weight": {"lower": 2}}}, "correction.weight.lower", "2"),
        ({"correction": {"catastrophic": 2}}, "correction.catastrophic", "2"),
        ({"correction": {"filters": [{"level": "word"}]}}, "correction.filters[0].level", "'word'"),
        ({"loss": {"clip_low": 1.2}}, "loss.clip_low", "1.2"),
        ({"loss": {"divisor": 7}}, "loss.divisor", "7"),
        ({"loss": {"aggregation": "seq-mean-token-sum-norm"}}, "loss.divisor", "a number of tokens"),
        ({"loss": {"aggregation": "mean"}}, "loss.aggregation", "'mean'"),
        ({"sample_masks": {"difficulty_mask": {"low": 1}}}, "sample_masks.difficulty_mask.low", "1"),
        ({"sample_masks": {"max_tokens": 5}}, "sample_masks.max_tokens", "max_len_mask: true"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_key_value_and_what_to_write(problems, sections, key, value):
    (problem,) = problems(**sections)
    assert f"{key}: " in str(problem) and value in problem.message
    assert any(word in problem.message for word in ("expected", "write", "remove"))


def test_a_filter_that_masks_nothing_is_warned_about(config):
    (caution,) = cautions(config(correction={"filters": [{"ratio_enabled": False}]}))
    assert "correction.filters[0]: it masks no token" in str(caution)
