"""Counters under the names that ROLL, slime and MILES have for them, so that a dashboard from there goes on."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain.topology import StageName
from pipeline.history.view import RunView

GROUP_FILTER_COUNT = "scheduler/group_filter_count"
"""ROLL: groups that the group filter refused."""
DYNAMIC_FILTER = "rollout/dynamic_filter/"
"""slime and MILES: followed by `drop_<reason>`."""


def field_counts(view: RunView) -> Iterator[tuple[str, str, int]]:
    """Domain, name and count of everything since the run's start; 0 for names that the configuration knows."""
    for domain, counts in view.groups.domains.items():
        by_filter = [many for (_, _, by), many in counts.rejected.items() if by != StageName.ASSEMBLER]
        yield domain, GROUP_FILTER_COUNT, sum(by_filter)
        for name, many in counts.drops.items():
            yield domain, f"{DYNAMIC_FILTER}{name}", many
