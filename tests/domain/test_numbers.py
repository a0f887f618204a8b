"""Ids, the lead's arithmetic, seeds, means: small rules on plain numbers."""

from math import isnan
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.domain.grouping import mean, sample_std, scores_of, version_range
from pipeline.domain.ids import GroupId, group_id, number_of, parse_group_id, partition_of, response_id
from pipeline.domain.lead import expected_payload, open_target, seed_of, updated_acceptance

from .given import member, members

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(st.integers(0, 10**17), st.integers(0, 10**5))
def test_a_group_id_says_its_number_and_its_partition(n: int, partition: int) -> None:
    text = group_id(n, partition)
    assert parse_group_id(text) == GroupId(n, partition) == (number_of(text), partition_of(text))


@pytest.mark.parametrize(
    "text", ["", "@", "1", "1@", "@1", "01@0", "1@00", "-1@0", "1@-1", " 1@0", "1@0\n", "1@0/0.1", "1.0@0", "٣@0",
             "9" * 19 + "@0"],
)  # fmt: skip
def test_anything_else_is_no_group_id(text: str) -> None:
    assert parse_group_id(text) is None


def test_a_response_id_is_its_groups_with_slot_and_round() -> None:
    assert response_id("7@1", 2, 3) == "7@1/2.3"


def test_acceptance_moves_by_a_tenth_and_stays_between_one_in_twenty_and_one() -> None:
    assert updated_acceptance(1.0, True) == 1.0
    assert updated_acceptance(1.0, False) == 0.9
    assert updated_acceptance(0.05, False) == 0.05
    assert updated_acceptance(0.5, True) == 0.55


@pytest.mark.parametrize(
    ("missing", "acceptance", "most", "expected"),
    [(4, 1.0, 2.0, 4), (4, 0.5, 2.0, 8), (4, 0.05, 2.0, 8), (3, 0.9, 2.0, 4), (0, 0.5, 2.0, 0), (-3, 0.5, 2.0, 0),
     (3, 0.5, 1.0, 3)],
)  # fmt: skip
def test_the_open_target_makes_up_for_rejections_up_to_the_factor(
    missing: int, acceptance: float, most: float, expected: int
) -> None:
    assert open_target(missing, acceptance, most) == expected


def test_an_unseen_payload_counts_as_the_largest_and_a_seen_one_with_a_margin() -> None:
    assert expected_payload(0, 1000) == 1000
    assert expected_payload(100, 1000) == 150
    assert expected_payload(900, 1000) == 1000


@given(st.integers(0, 2**63), st.integers(0, 10**9))
def test_a_seed_is_a_number_below_two_to_the_63(run_seed: int, n: int) -> None:
    assert 0 <= seed_of(run_seed, n) < 2**63


def test_seeds_of_neighbours_differ() -> None:
    assert len({seed_of(17, n) for n in range(10_000)}) == 10_000


@pytest.mark.parametrize(("value", "count"), [(0.1, 3), (0.7, 7), (0.95, 12), (0.1, 10), (1 / 3, 9), (1e300, 4)])
def test_equal_values_have_a_spread_of_nothing(value: float, count: int) -> None:
    assert sample_std([value] * count) <= 1e-8 * max(1.0, value)


@given(st.lists(FINITE, min_size=1, max_size=9), st.randoms(use_true_random=False))
@example([0.0, -8.988465674311579e307, -8.98846567431158e307, 4.9896007738368e291], Random(1))
@example([1e308, 1e308, -1e308], Random(3))
def test_no_statistic_depends_on_the_order(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert repr(mean(values)) == repr(mean(shuffled))
    assert repr(sample_std(values)) == repr(sample_std(shuffled))


@given(st.lists(FINITE, min_size=1, max_size=9))
def test_statistics_of_finite_numbers_are_finite_or_nan(values: list[float]) -> None:
    for found in (mean(values), sample_std(values)):
        assert isnan(found) or abs(found) < float("inf")


def test_nothing_has_no_mean() -> None:
    assert isnan(mean([]))


def test_scores_are_unknown_where_a_member_lacks_the_number() -> None:
    known, lacking = scores_of(members([0.0, 1.0])), scores_of(members([0.0, None]))
    assert (known.reward_mean, known.reward_sum, known.entropy_mean) == (0.5, 1.0, None)
    assert (lacking.reward_mean, lacking.reward_std, lacking.reward_sum) == (None, None, None)
    assert lacking.length_mean == 20.0
    assert scores_of(()).length_mean == 0.0


def test_the_oldest_and_the_newest_version_are_of_those_that_name_one() -> None:
    versions = [(3, 4), (2, 2), (-1, -1)]
    who = [member(i, oldest_version=old, newest_version=new) for i, (old, new) in enumerate(versions)]
    assert version_range(who) == (2, 4)
    assert version_range(who[2:]) == version_range([]) == (-1, -1)
