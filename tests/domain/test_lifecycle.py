"""The audit's fold finds each kind of broken promise, and nothing in a run that keeps them."""

from dataclasses import replace

import pytest

from pipeline.domain import events as e
from pipeline.domain.lifecycle import Ledger
from pipeline.domain.vocabulary import Outcome, ShortReason, WaiverReason

from .given import MEMBERS, accepted, expired, formed, opened, rejected, returned, rules, saved, starved
from .given import trained as trained_on

END = e.RunFinished(Outcome.COMPLETED, 1, 0)


def audit(*events: e.Event, finished: bool = False) -> list[str]:
    """Names of the invariants that these records break."""
    ledger = Ledger(rules(quotas={"maths": 1}), MEMBERS)
    for event in events:
        ledger.note(event)
    return [v[:2] for v in [*ledger.violations, *(ledger.unfinished() if finished else ())]]


def waived(gid: str) -> e.ReplacementWaived:
    return e.ReplacementWaived(gid, "maths", WaiverReason.SURPLUS, 0)


def batch(number: int, gid: str, follows: int = 0, version: int = 0) -> e.BatchFormed:
    one = formed(number, gid, follows=follows)
    return replace(one, groups=tuple(replace(g, oldest_version=version) for g in one.groups))


GOOD = (
    opened("0@0"), accepted("0@0"), batch(1, "0@0"), trained_on(1), saved(1, 1), opened("1@0"), rejected("1@0"),
    opened("2@0", replaces="1@0"), expired("2@0"), waived("2@0"),
)  # fmt: skip


def test_a_run_that_keeps_its_promises_breaks_none() -> None:
    assert audit(*GOOD, END, finished=True) == []


def test_a_checkpoint_may_be_read_before_the_training_it_covers() -> None:
    assert audit(opened("0@0"), accepted("0@0"), batch(1, "0@0"), saved(1, 1), trained_on(1), END, finished=True) == []


@pytest.mark.parametrize(
    ("invariant", "events"),
    [
        ("I1", [opened("0@0"), rejected("0@0"), waived("0@0"), expired("0@0")]),
        ("I1", [opened("0@0"), accepted("0@0"), accepted("0@0")]),
        ("I1", [opened("0@0"), rejected("0@0"), waived("0@0"), accepted("0@0")]),
        ("I1", [opened("0@0"), batch(1, "0@0")]),
        ("I1", [opened("0@0"), accepted("0@0"), expired("0@0"), waived("0@0"), batch(1, "0@0")]),
        ("I2", [opened("0@0"), opened("0@0")]),
        ("I2", [accepted("0@0")]),
        ("I2", [rejected("0@0")]),
        ("I2", [batch(1, "0@0")]),
        ("I2", [opened("0@0"), replace(accepted("0@0"), members=accepted("0@0", size=3).members)]),
        ("I3", [opened("0@0"), waived("0@0")]),
        ("I3", [opened("0@0"), opened("1@0", replaces="0@0")]),
        ("I3", [opened("0@0"), rejected("0@0"), waived("0@0"), opened("1@0", replaces="0@0")]),
        ("I3", [*GOOD[:5], waived("0@0")]),
        ("I5", [opened("0@0"), accepted("0@0"), replace(batch(1, "0@0"), groups=())]),
        ("I5", [opened("0@0"), accepted("0@0"), replace(batch(1, "0@0"), short=ShortReason.STARVATION)]),
        ("I5", [opened("0@0"), accepted("0@0"), batch(1, "0@0"), batch(2, "0@0")]),
        ("I5", [opened("0@0"), accepted("0@0"), batch(1, "0@0", follows=2, version=0)]),
        ("I5", [opened("0@0"), accepted("0@0"), batch(1, "0@0"), trained_on(1, 1), trained_on(1, 2)]),
        ("I5", [*GOOD[:5], saved(1, 1)]),
        ("I5", [*GOOD[:5], returned(1)]),
        ("I5", [trained_on(1)]),
        ("I5", [saved(1, 1)]),
        ("I5", [returned(1)]),
        ("I5", [*GOOD[:4], opened("1@0"), accepted("1@0"), batch(2, "1@0"), trained_on(2, 1)]),
        ("I5", [*GOOD[:4], opened("1@0"), accepted("1@0"), batch(2, "1@0"), trained_on(2, 3)]),
        ("I7", [opened(f"{n}@0") for n in range(5)]),
    ],
)  # fmt: skip
def test_each_broken_promise_is_named(invariant: str, events: list[e.Event]) -> None:
    assert audit(*events)[:1] == [invariant]


@pytest.mark.parametrize(
    ("invariant", "events"),
    [
        ("I1", [opened("0@0"), END]),
        ("I3", [opened("0@0"), rejected("0@0"), END]),
        ("I5", [opened("0@0"), accepted("0@0"), batch(1, "0@0"), trained_on(1), END]),
        ("I1", list(GOOD)),
        ("I1", [*GOOD, END, END]),
    ],
)
def test_what_a_finished_run_still_owes_is_named(invariant: str, events: list[e.Event]) -> None:
    assert invariant in audit(*events, finished=True)


def test_a_returned_groups_next_batch_is_not_its_second() -> None:
    history = [opened("0@0"), accepted("0@0"), batch(1, "0@0"), returned(1), batch(2, "0@0"), trained_on(2, 1)]
    assert audit(*history, saved(1, 2), END, finished=True) == []


def test_a_group_counts_in_the_lead_until_its_first_training() -> None:
    ahead: list[e.Event] = []
    for n in range(4):
        ahead += [opened(f"{n}@0"), accepted(f"{n}@0")]
    assert audit(*ahead, opened("4@0")) == ["I7"]
    assert audit(*ahead, batch(1, "0@0"), opened("4@0")) == ["I7"]
    assert audit(*ahead, batch(1, "0@0"), trained_on(1), opened("4@0")) == []


def test_other_records_say_nothing_of_groups() -> None:
    assert audit(starved(), e.Tick(0, None), e.StopRequested("x", 0)) == []
