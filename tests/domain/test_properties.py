"""What holds of any history: copies change nothing, a restart goes on the same, groups don't see each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.rules import AssemblyRules, Rules
from pipeline.log.state import StateCodec

from .given import MEMBERS, Feed, asked, failed, filtered, opened, rules, scored, tick

RULES = rules(assembly=AssemblyRules("valid", 3, 8_000, 60_000))
GROUPS = 3

answers = st.tuples(
    st.integers(0, GROUPS - 1), st.integers(0, 4), st.integers(1, 3), st.sampled_from(["scored", "failed", "filtered"])
)
waits = st.integers(0, 9_000)
histories = st.lists(st.one_of(answers, waits), max_size=40)


def openings() -> list[e.Event]:
    """Two training groups, one of them redundant, and one of an evaluation."""
    return [opened("0@0", 2), opened("1@0", 2, redundancy=2), asked("2@0", 2)]


def history(drawn: list[Any]) -> list[e.Event]:
    """Openings, then answers and time as drawn."""
    events, now = openings(), 0
    for item in drawn:
        if isinstance(item, int):
            now += item
            events.append(tick(now))
        else:
            group, slot, round, kind = item
            make = {"scored": scored, "failed": failed, "filtered": filtered}[kind]
            events.append(make(f"{group}@0/{slot}.{round}"))
    return events


def assembler(r: Rules = RULES) -> Feed:
    return Feed(Assembler(r, MEMBERS))


@given(histories)
def test_a_fold_is_deterministic(drawn: list[Any]) -> None:
    one, other = assembler(), assembler()
    assert one(*history(drawn)) == other(*history(drawn))
    assert one.state == other.state


@given(histories, st.integers(0, 43))
def test_a_snapshot_anywhere_and_the_rest_is_the_whole(drawn: list[Any], cut: int) -> None:
    events = history(drawn)
    whole, before, after = assembler(), assembler(), assembler()
    expected = whole(*events)
    codec = StateCodec(Assembler.state_type or object)
    outputs = before(*events[:cut])
    after.state = codec.decode(codec.encode(before.state))
    assert outputs + after(*events[cut:]) == expected
    assert after.state == whole.state
    assert codec.encode(after.state) == codec.encode(whole.state)


@given(histories, st.data())
def test_a_copy_of_a_response_changes_nothing_but_is_discarded(drawn: list[Any], data: st.DataObject) -> None:
    events = history(drawn)
    places = [i for i, event in enumerate(events) if isinstance(event, e.ResponseScored)]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    with_copy = [*events[: place + 1], events[place], *events[place + 1 :]]
    once, twice = assembler(), assembler()
    outputs = twice(*with_copy)
    (extra,) = [o for o in _difference(outputs, once(*events))]
    assert isinstance(extra, e.ResponseDiscarded)
    assert twice.state == once.state


def _difference(longer: list[e.Event], shorter: list[e.Event]) -> list[e.Event]:
    """What the longer list has beside the shorter one, in the order of which they agree."""
    left = list(shorter)
    extra: list[e.Event] = []
    for event in longer:
        if left and event == left[0]:
            left.pop(0)
        else:
            extra.append(event)
    assert left == []
    return extra


@given(histories)
def test_unrelated_groups_do_not_see_each_other(drawn: list[Any]) -> None:
    """Without evaluations, which stop the clock of training groups, and so without times that a lease would see."""
    drawn = [item for item in drawn if not isinstance(item, int)]
    together = assembler()
    outputs = together(*history(drawn))
    for n, opening in enumerate(openings()):
        alone = assembler()
        mine = [event for event in history(drawn)[GROUPS:] if e.key_of(event) == f"{n}@0"]
        expected = alone(opening, *mine)
        assert [o for o in outputs if e.key_of(o) == f"{n}@0"] == expected


@given(histories)
def test_every_group_leaves_once_and_every_response_is_a_member_or_discarded(drawn: list[Any]) -> None:
    feed = assembler()
    events = history(drawn)
    outputs = feed(*events)
    endings = [e.key_of(o) for o in outputs if isinstance(o, e.GroupAssembled | e.GroupRejected)]
    assert len(endings) == len(dict.fromkeys(endings))
    assert sorted([*endings, *(f"{n}@0" for n in feed.state.open)]) == [f"{n}@0" for n in range(GROUPS)]
    members = [
        m
        for o in outputs
        if isinstance(o, e.GroupAssembled | e.GroupRejected)
        for m in MEMBERS.decode(o.members)
        if m.generator
    ]
    held = [m for group in feed.state.open.values() for m in group.members]
    discarded = [o for o in outputs if isinstance(o, e.ResponseDiscarded)]
    given_in = [event for event in events if isinstance(event, e.ResponseScored)]
    assert len(members) + len(held) + len(discarded) == len(given_in)


@given(histories)
def test_nobody_is_asked_for_more_than_is_missing_or_beyond_the_last_round(drawn: list[Any]) -> None:
    feed = assembler()
    for event in history(drawn):
        for output in feed(event):
            if isinstance(output, e.ResponsesRequested):
                group = feed.state.open[int(output.group_id.split("@")[0])]
                assert group.missing() <= 0
                assert all(1 <= s.round <= 3 for s in output.slots)
                assert len(group.members) + group.waiting() <= group.opened.group_size + group.opened.redundancy


@given(st.permutations(range(4)), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_the_order_of_arrival_changes_no_bit_of_what_is_assembled(order: list[int], rewards: list[float]) -> None:
    first, other = assembler(), assembler()
    for feed in (first, other):
        feed(opened("0@0"))
    (one,) = first(*(scored(f"0@0/{slot}.1", rewards[slot]) for slot in range(4)))
    (two,) = other(*(scored(f"0@0/{slot}.1", rewards[slot]) for slot in order))
    assert repr(one) == repr(two)


@pytest.mark.parametrize("value, count", [(0.1, 3), (0.7, 7), (0.95, 12)])
def test_equal_rewards_are_constant_although_their_float_spread_is_not_zero(value: float, count: int) -> None:
    feed = assembler()
    feed(opened("0@0", count))
    (group,) = feed(*(scored(f"0@0/{slot}.1", value) for slot in range(count)))
    assert isinstance(group, e.GroupAssembled)
    assert group.scores.reward_std is not None and group.scores.reward_std <= 1e-8
