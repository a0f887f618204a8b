"""What filters look at of a member: who wants nothing but verdicts need decode no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.domain.events import Member
from pipeline.domain.rules import FilterRule, Rules

EVERY: Final = frozenset(Member.__match_args__)
BY_ALL: Final = frozenset({"slot", "reward", "grading", "failure", "oldest_version"})
"""Looked at in every group: by the checks of integrity, and of what is unknown."""
BY_TYPE: Final = {
    "provenance": frozenset({"oldest_version", "newest_version"}),
    "drop_flag": frozenset({"drop_flag", "env_timeout", "env_failed"}),
    "finished_zero_std": frozenset({"finish_reason"}),
    "custom": EVERY,
}
BY_METRIC: Final = {"reward": "reward", "raw": "raw_score"}
"""Any other metric is a component."""


def looked_at(rules: Rules) -> frozenset[str]:
    """The fields of Member that the filters and the shadow filters of these rules look at."""
    return BY_ALL.union(*(_by(rule) for domain in rules.domains for rule in (*domain.filters, *domain.shadows)))


def _by(rule: FilterRule) -> Iterator[str]:
    yield from BY_TYPE.get(rule.type, ())
    if "metric" in rule.args:
        yield BY_METRIC.get(str(rule.args["metric"]), "components")
