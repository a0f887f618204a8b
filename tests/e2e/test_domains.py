"""Three domains with chains and quotas of their own in one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from pipeline.domain import events as e
from pipeline.domain.vocabulary import Category, Reason
from pipeline.log.codec import Members
from tests.e2e.harness import ROLES, Run

pytestmark = pytest.mark.e2e

SIZES = {"math": 400, "code": 400, "game": 400}
PLANS = {"5": "flagged", "7": "constant", "3": "right-1", "2": "right-4"}
DOMAINS = {
    "math": {"proportion": 0.45},
    "code": {"proportion": 0.3, "filters": [{"type": "band", "low": 0.4, "high": 0.8}]},
    "game": {"proportion": 0.25, "filters": [{"type": "mean_filter", "threshold_down": 0.0, "threshold_up": 1.0},
                                             {"type": "drop_flag"}]},
}  # fmt: skip
QUOTAS = {"math": 3, "code": 2, "game": 2}
"""int(p·7) of each, and what is left for the last."""


def expected(domain: str, members: Sequence[e.Member]) -> Reason | None:
    """What the domain's chain says of a group, in plain words."""
    rewards = [member.reward or 0.0 for member in members]
    mean = sum(rewards) / len(rewards)
    match domain:
        case "math":
            return Reason.ZERO_STD if len(set(rewards)) == 1 else None
        case "code":
            return None if 0.4 <= mean <= 0.8 else Reason.BAND
    if any(member.drop_flag for member in members):
        return Reason.DROP_FLAG
    return Reason.MEAN_LOW if mean <= 0 else Reason.MEAN_HIGH if mean >= 1 else None


def test_each_domain_has_its_chain_and_its_share_of_every_batch(make_run: Callable[..., Run]) -> None:
    prompts = {"factory": "tests.e2e.plugins:Numbers", "options": {"sizes": SIZES, "every": PLANS}}
    run = make_run(steps=4, prompts=prompts, group_size=4, batch_size=7, domains=DOMAINS, filters={
        "math": [{"type": "zero_std"}]})  # fmt: skip
    everyone = run.start(*ROLES)
    run.finish()
    run.ended_well(everyone)
    hashes = {domain.name: domain.filter_hash for domain in run.rules.domains}
    assert len(set(hashes.values())) == 3
    seen: dict[str, Counter[Reason | None]] = {name: Counter() for name in DOMAINS}
    for verdict in [*run.events(e.GroupAccepted), *run.events(e.GroupRejected)]:
        domain, members = verdict.prompt.domain, Members().decode(verdict.members)
        reason = verdict.reason if isinstance(verdict, e.GroupRejected) else None
        assert (reason, verdict.filter_hash) == (expected(domain, members), hashes[domain])
        seen[domain][reason] += 1
    kinds = {name: set(reasons) for name, reasons in seen.items()}
    assert kinds["math"] == {None, Reason.ZERO_STD} and kinds["code"] == {None, Reason.BAND}
    assert kinds["game"] >= {None, Reason.DROP_FLAG} and len(kinds["game"]) >= 3
    flagged = run.events(e.GroupRejected, where=lambda event: event.reason is Reason.DROP_FLAG)
    assert {event.category for event in flagged} == {Category.INVALID}
    for batch in run.events(e.BatchFormed):
        assert batch.short is None and Counter(group.domain for group in batch.groups) == QUOTAS
    assert [domain.quota for domain in run.rules.domains] == list(QUOTAS.values())
