"""What is refused of domains, filters, guards and windows names place, value, what was expected and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.config import DecisionConfig, Problem, cautions

NO_FILTER = {"type": "no_filter"}


def chain(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"filters": {"default": list(filters)}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a domain without entry or default": (
        {"domains": {"math": {"quota": 1}, "code": {"quota": 1}}, "filters": {"math": [NO_FILTER]}},
        "domains.code: the domain has no filters, and filters.default is not given; add one ({type: no_filter} "
        "keeps all) [no_filters]",
    ),
    "filters that can never accept together": (
        chain({"type": "mean_filter", "threshold_up": 0.5}, {"type": "band", "low": 0.5, "high": 1.0}),
        "filters.default[1]: band keeps means of reward from 0.5 to 1, and what stands before it from -inf to 0.5; "
        "expected a mean that all of them keep: widen one [never_accepts]",
    ),
    "a band the wrong way round": (
        chain({"type": "band", "low": 0.8, "high": 0.2}),
        "filters.default[0]: band keeps no group: no mean of reward lies between 0.8 and 0.2; expected the lower bound "
        "below the upper one: swap or widen them [never_accepts]",
    ),
    "thresholds the wrong way round": (
        {"domains": {"math": {"quota": 4, "filters": [
            {"type": "mean_filter", "threshold_down": 1.0, "threshold_up": 0.0, "metric": "exact"}]}}},
        "domains.math.filters[0]: mean_filter keeps no group: no mean of exact lies between 1 and 0; expected "
        "the lower bound below the upper one: swap or widen them [never_accepts]",
    ),
    "groups of one with a filter of spread": (
        {"group_size": 1},
        "group_size: is 1, but the filter zero_std of domain math needs a spread of rewards; expected at least "
        "2: write group_size: 2 or more, or take a filter of means (mean_filter, band) or no_filter [group_of_one]",
    ),
    "a guard with several partitions": (
        {"guard": {"math": {"type": "window"}}, "filter_partitions": 2},
        "filter_partitions: is 2, but a guard must see all groups of its domain; expected 1: write "
        "filter_partitions: 1, or leave it out [guard_partitions]",
    ),
    "a lead too small for the batches wanted": (
        {"prefetch": 2},
        "prefetch: is 2, which needs a lead of 12 groups of domain math; async_ratio 1 allows 8: lower prefetch "
        "or raise async_ratio to 2 [lead_too_small]",
    ),
    "a lead too small for the window": (
        {"prefetch": 2, "selection": {"window": 16}},
        "prefetch: is 2, which needs a lead of 57 groups of domain math (windows of 16); async_ratio 1 allows "
        "38: lower prefetch or raise async_ratio to 2 [lead_too_small]",
    ),
    "a custom filter together with the built-in switch": (
        {"filter_zero_std_groups": True} | chain({"type": "custom", "factory": "a.b:C"}),
        "filter_zero_std_groups: is true, but domain math has the custom filter a.b:C, and it isn't said whether that "
        "takes the place of the built-in one: set it to false for yours alone, or leave it out and write zero_std and "
        "custom in the chain for both [custom_and_built_in]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_to_write(problems: Callable[..., list[Problem]], name: str) -> None:
    changes, said = REFUSED[name]
    assert [str(problem) for problem in problems(**changes)] == [said]


def test_it_says_in_which_line(written: Callable[..., DecisionConfig]) -> None:
    with pytest.raises(ValueError, match=r"run\.yaml:8: filters\.default\[0\]: band keeps no group: no mean of reward"):
        written("filters:\n  default:\n    - {type: band, low: 1, high: 0}")


WARNED: dict[str, tuple[dict[str, Any], str]] = {
    "std_filter": ({}, "std_threshold -1 is below any deviation; write one such as 0.01"),
    "mean_filter": ({}, "it has no threshold; write threshold_down or threshold_up"),
    "provenance": ({}, "without one_version it asks only what is asked of every group; write one_version: true"),
}


@pytest.mark.parametrize("kind", WARNED)
def test_a_filter_that_can_never_reject_is_warned_about(config: Callable[..., DecisionConfig], kind: str) -> None:
    settings, why = WARNED[kind]
    (found,) = cautions(config(**chain({"type": kind} | settings)))
    said = f"filters.default[0]: {kind} never rejects a group: {why}, or take no_filter [never_rejects]"
    assert str(found) == said
