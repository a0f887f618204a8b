"""Guards: which rejected groups they keep, what they remember, and that a snapshot holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.filters.guard import GUARDS, KEEPABLE, Guard, GuardState
from pipeline.domain.filters.stage import Filter, Verdicts
from pipeline.domain.rules import DomainRules, FilterRule, GuardRule
from pipeline.domain.vocabulary import Reason
from pipeline.log.state import StateCodec

from .given import MEMBERS, Feed, assembled, members, rules

ZERO_STD = FilterRule("zero_std", {"tol": 1e-8, "metric": "reward", "max_reward": 1.0})
RATIO = GuardRule("roll_ratio", {"max_ratio": 0.5})
GOOD, BAD, BROKEN = [0.0, 1.0], [1.0, 1.0], [None, 1.0]


def window(size: int, least: int = 1, ratio: float = 0.5, keep_after: int | None = None) -> GuardRule:
    args = {"window": size, "min_samples": least, "max_ratio": ratio, "keep_after": keep_after}
    return GuardRule("window", args)


def consecutive(keep_after: int) -> GuardRule:
    return GuardRule("consecutive", {"keep_after": keep_after})


def told(rule: GuardRule, text: str) -> str:
    """What becomes of a stream of good (g) and bad (b) groups: accepted (+), kept by the guard (k), rejected (-)."""
    guard, state, answer = Guard(rule), GuardState(), ""
    for letter in text:
        reason = Reason.ZERO_STD if letter == "b" else None
        kept = guard.keeps(state, reason)
        answer += "k" if kept else "-" if reason else "+"
    return answer


def test_rolls_guard_keeps_the_first_bad_group_and_then_every_other_one() -> None:
    assert told(RATIO, "bbbbbb") == "k-k-k-"
    assert told(RATIO, "gbbbbb") == "+-k-k-"


def test_rolls_guard_lets_a_good_run_be_followed_by_as_long_a_bad_one() -> None:
    assert told(RATIO, "g" * 100 + "b" * 101) == "+" * 100 + "-" * 100 + "k"


@pytest.mark.parametrize(("scope", "verdicts"), [({}, "kk--kk"), ({"scope": "run"}, "k-k-k-")])
def test_rolls_guard_may_count_the_groups_of_all_domains(scope: dict[str, str], verdicts: str) -> None:
    guard = GuardRule("roll_ratio", {"max_ratio": 0.5, **scope})
    domains = tuple(DomainRules(name, 1, (ZERO_STD,), "hash", guard) for name in ("sokoban", "lake"))
    feed = Feed(Filter(replace(rules(), domains=domains), MEMBERS))
    groups = [assembled(f"{n}@0", members(BAD), 2, domain=domains[n % 2].name) for n in range(6)]
    told = ["k" if isinstance(verdict, e.GroupAccepted) else "-" for verdict in feed(*groups)]
    assert "".join(told) == verdicts
    assert len(feed.state.guards) == (1 if scope else 2)


def test_a_window_forgets_a_good_run() -> None:
    assert told(window(4), "g" * 100 + "bbbbbb") == "+" * 100 + "--kk--"


def test_a_window_waits_for_enough_samples() -> None:
    assert told(window(10, least=4), "bbbbb") == "---kk"


def test_a_window_may_be_patient_for_a_number_of_rejections() -> None:
    assert told(window(10, least=10, keep_after=2), "bbbbbb") == "--k--k"


def test_after_rejections_in_a_row_one_is_kept() -> None:
    assert told(consecutive(3), "bbbbbbbbgbbb") == "---k---k+---"
    assert told(consecutive(0), "bb") == "kk"


@pytest.mark.parametrize("reason", [r for r in Reason if r not in KEEPABLE])
def test_a_broken_group_is_never_kept_and_counted_by_rolls_guard_alone(reason: Reason) -> None:
    for rule, total in ((consecutive(0), 0), (window(3), 0), (RATIO, 1)):
        state = GuardState()
        assert not Guard(rule).keeps(state, reason)
        assert state == GuardState(total=total)


def test_the_total_of_rolls_guard_has_every_group() -> None:
    guard, state = Guard(RATIO), GuardState()
    for reason in [Reason.ENV_FAILED] * 5 + [None]:
        guard.keeps(state, reason)
    assert guard.told(state) == {"total": 6.0, "filtered": 0.0, "in_a_row": 0.0}
    kept = [guard.keeps(state, Reason.ZERO_STD) for _ in range(7)]
    assert kept == [False] * 6 + [True]  # 7 of 13 would be rejected


def filtering(*guards: GuardRule | None) -> Feed:
    names = ("maths", "code")
    domains = [DomainRules(n, 1, (ZERO_STD,), "hash", g) for n, g in zip(names, guards, strict=False)]
    return Feed(Filter(replace(rules(), domains=tuple(domains)), MEMBERS))


def fed(feed: Feed, values: Sequence[float | None], domain: str = "maths") -> Any:
    (event,) = feed(assembled("0@0", members(values), len(values), domain))
    return event


def test_a_kept_group_says_so_with_what_the_filter_measured() -> None:
    event = fed(filtering(RATIO), BAD)
    assert isinstance(event, e.GroupAccepted)
    assert event.kept_by_guard
    assert (event.filter, event.measured, event.threshold) == ("zero_std", 0.0, 1e-8)
    assert event.guard_state == {"total": 1.0, "filtered": 0.0, "in_a_row": 0.0}


def test_each_verdict_tells_the_guards_state_after_it() -> None:
    feed = filtering(window(3))
    assert isinstance(fed(feed, GOOD), e.GroupAccepted)
    event = fed(feed, BAD)
    assert isinstance(event, e.GroupRejected)
    after = {"total": 2.0, "filtered": 1.0, "in_a_row": 1.0, "recent": 2.0, "recent_filtered": 1.0}
    assert event.guard_state == after
    broken = fed(feed, BROKEN)
    assert isinstance(broken, e.GroupRejected)
    assert broken.guard_state == after


def test_each_domain_has_its_own_guard() -> None:
    feed = filtering(consecutive(1), consecutive(1))
    assert [type(fed(feed, BAD, d)).__name__ for d in ("maths", "code", "maths", "code")] == [
        "GroupRejected", "GroupRejected", "GroupAccepted", "GroupAccepted",
    ]  # fmt: skip
    assert not isinstance(fed(filtering(None, RATIO), BAD, "maths"), e.GroupAccepted)


def test_a_snapshot_holds_what_a_guard_remembers() -> None:
    feed, again = filtering(window(3, least=2)), filtering(window(3, least=2))
    for values in (GOOD, BAD, BAD, GOOD, BAD):
        fed(feed, values)
    codec = StateCodec(Verdicts)
    again.state = codec.decode(codec.encode(feed.state))
    assert again.state == feed.state
    assert [fed(feed, BAD) for _ in range(5)] == [fed(again, BAD) for _ in range(5)]


def test_what_is_remembered_is_bounded() -> None:
    feed = filtering(window(5))
    for n in range(100):
        fed(feed, BAD if n % 3 else GOOD)
    assert len(feed.state.guards["maths"].recent) == 5
    assert feed.stage.entries(feed.state) == 6
    assert {rule.type for rule in (RATIO, window(1), consecutive(1))} == {*GUARDS}
