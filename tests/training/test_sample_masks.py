"""Masks on whole samples."""

import math

import pytest
import torch

from pipeline.training.sample_masks import SampleMaskConfig, difficulty_mask, sample_mask


def test_the_bounds_of_difficulty_are_strict() -> None:
    scores, groups = [0.0, 0.5, 0.25, 0.25, 1.0, 0.5, 0.5, 0.5], [0, 0, 1, 1, 2, 2, 3, 3]
    assert difficulty_mask(scores, groups, 0.25, 0.75) == [False] * 6 + [True] * 2


def test_a_group_of_one_is_kept_and_one_without_a_finite_mean_is_not() -> None:
    assert difficulty_mask([1.0, math.nan, 0.5, math.inf, 0.5], ["a", "b", "b", "c", "c"]) == [True] + [False] * 4


def test_all_masks_are_off_unless_switched_on() -> None:
    found = sample_mask([1, 9], [0.0, 0.0], [0, 0], SampleMaskConfig(max_tokens=9))
    assert found.kept == (True, True) and set(found.shares.values()) == {1.0}


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (SampleMaskConfig(max_len=True, max_tokens=9), (True, False, True, False)),
        (SampleMaskConfig(error_max_len=True, error_tokens=3), (True, False, True, True)),
        (SampleMaskConfig(difficulty=True, difficulty_high=0.5), (True, True, False, False)),
        (
            SampleMaskConfig(difficulty=True, max_len=True, max_tokens=9, difficulty_high=0.5),
            (True, False, False, False),
        ),
    ],
)
def test_each_mask_takes_its_samples(config: SampleMaskConfig, kept: tuple[bool, ...]) -> None:
    found = sample_mask([2, 9, 3, 9], [0.3, 0.3, 1.0, 1.0], [0, 0, 1, 1], config)
    assert found.kept == kept and found.shares["final"] == sum(kept) / 4


def test_a_mask_goes_on_a_new_tensor_and_an_empty_one_says_so() -> None:
    mask = torch.ones(2, 3, dtype=torch.long)
    some = sample_mask([9, 1], [0.0, 1.0], [0, 0], SampleMaskConfig(max_len=True, max_tokens=9))
    assert some.on(mask).tolist() == [[0, 0, 0], [1, 1, 1]] and mask.all() and not some.empty
    assert some.on(mask.bool()).dtype == torch.bool
    assert sample_mask([9, 9], [0.0, 1.0], [0, 0], SampleMaskConfig(max_len=True, max_tokens=9)).empty


def test_what_was_cut_off_is_masked_whatever_the_limit() -> None:
    cut = [True, False]
    assert sample_mask([3, 9], [0.0, 1.0], [0, 0], SampleMaskConfig(max_len=True), cut).kept == (False, True)
    assert sample_mask([3, 9], [0.0, 1.0], [0, 0], SampleMaskConfig(), cut).kept == (True, True)
