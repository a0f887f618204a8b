"""What the product's batcher takes from groups that wait, and which of them it finds too old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import FilterRule, GuardRule
from pipeline.domain.vocabulary import ExpiryReason
from tests.domain.given import MEMBERS, Feed, accepted, rules, trained


@dataclass(frozen=True)
class Taken:
    """The batch's groups, none if none is formed; and the groups that were too old for it."""

    groups: tuple[e.BatchGroup, ...]
    stale: tuple[str, ...]


def taken(waiting: Sequence[e.GroupAccepted], quota: int, version: int, max_staleness: int) -> Taken:
    """The groups are accepted in this order while a batch is under way; then it is trained, as this version."""
    batcher = Feed(Batcher(replace(rules(quotas={"maths": quota}), prefetch=0, max_staleness=max_staleness)))
    batcher(*[accepted(f"{n}@before") for n in range(quota)], *waiting)
    answers = batcher(trained(1, version))
    return Taken(
        tuple(group for answer in answers if isinstance(answer, e.BatchFormed) for group in answer.groups),
        tuple(a.group_id for a in answers if isinstance(a, e.GroupExpired) and a.reason is ExpiryReason.STALE),
    )


def too_old(groups: dict[str, int], version: int, max_staleness: int) -> tuple[str, ...]:
    """Of groups, told by their oldest version, those that a batch may no longer have after this version."""
    return taken([accepted(name, version=oldest) for name, oldest in groups.items()], 1, version, max_staleness).stale


def filtering(filters: tuple[FilterRule, ...], guard: GuardRule | None = None) -> Feed:
    """The filter stage of one partition, with this chain and this guard."""
    plain = rules()
    chain = replace(plain.domains[0], filters=filters, guard=guard)
    return Feed(Filter(replace(plain, domains=(chain,), filter_partitions=1), MEMBERS))
