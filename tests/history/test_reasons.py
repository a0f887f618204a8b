"""Whatever ends unused says why: there is a sentence for every reason, and it names the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.rules import rules_of
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import (
    ConstantClass,
    DiscardReason,
    ExpiryReason,
    Failure,
    FinishReason,
    Grading,
    Purpose,
    Reason,
    SkipReason,
    WaiverReason,
    category_of,
)
from pipeline.history import reasons, sentences
from pipeline.history.records import MemoryLog
from pipeline.history.trace import trace, trace_run
from pipeline.log.codec import Members, encode
from pipeline.log.reader import Record

from .drive import CONFIG, Drive

RULES = rules_of(CONFIG | {"max_attempts": 7, "max_staleness": 5, "steps": 41})
PROMPT = e.PromptRef("p1", "sort", 1, 0)
OPENED = e.GroupOpened("1@0", PROMPT, Purpose.TRAIN, None, "1@0", None, 6, 5, 3, 1, 0, None, 0)
MEMBERS = tuple(
    e.Member(
        slot, 1, "key", 100, 1.0, 1.0, 0.0, {}, None, Grading.GRADED, None, FinishReason.STOP, False, False, False, 5,
        9, 0, 0, "g",
    )
    for slot in range(2)
)  # fmt: skip
SCORED = e.ResponseScored(
    "1@0", 2, 3, "key", 100, None, 1.0, 0.0, 1.0, {}, Grading.GRADED, None, None, 1, 1500, FinishReason.STOP, 5, 412,
    0, 0, None, False, False, False, "g", None, 0,
)  # fmt: skip
GUARD = {"total": 30.0, "filtered": 12.0, "in_a_row": 4.0, "recent": 20.0, "recent_filtered": 8.0}
SHADOWS = (
    e.ShadowVerdict("band", False, Reason.BAND, 0.0625),
    e.ShadowVerdict("std_filter", True, None, 0.375),
)
REJECTED = e.GroupRejected(
    "1@0", PROMPT, Reason.BAND, category_of(Reason.BAND), None, "exact", "drop_band", "as said", b"", 200, 100, 0, 0,
    None, "the_filter", 0.1875, 0.25, {}, "hash", GUARD, SHADOWS, 0,
)  # fmt: skip


@pytest.mark.parametrize("reason", Reason)
def test_a_rejection_names_reason_numbers_filter_guard_and_shadows(reason: Reason) -> None:
    text = reasons.rejected(replace(REJECTED, reason=reason, category=category_of(reason)), MEMBERS, 3)
    assert text.startswith(f"rejected: {reason} ({category_of(reason)}) by the_filter: ")
    for part in ("0.1875", "0.25", "as said", "12 of 30 rejected, 4 in a row, 8 of the newest 20"):
        assert part in text
    assert text.endswith("; shadow band rejects it: band, measured 0.0625; shadow std_filter keeps it, measured 0.375")
    assert "{" not in text


@pytest.mark.parametrize("reason", [Reason.RESPONSE_RETRIES_EXHAUSTED, Reason.DEADLINE])
def test_a_group_that_was_never_whole_says_how_much_of_it_there_was(reason: Reason) -> None:
    event = replace(REJECTED, reason=reason, measured=None, threshold=None, guard_state={}, shadows=(), detail=None)
    assert reasons.rejected(event, MEMBERS, 3).endswith("with 2 of 3 responses at hand")


@pytest.mark.parametrize("reason", [Reason.ZERO_STD, Reason.STD, Reason.MEAN_LOW, Reason.MEAN_HIGH, Reason.BAND])
def test_the_metric_that_was_looked_at_is_named(reason: Reason) -> None:
    assert "of exact is 0.1875" in reasons.rejected(replace(REJECTED, reason=reason), MEMBERS, 3)


def test_a_metric_that_no_verifier_gives_is_not_said_to_be_unjudged() -> None:
    event = replace(REJECTED, reason=Reason.UNGRADED, metric="exactt", measured=None, threshold=None)
    text = reasons.rejected(event, MEMBERS, 2)
    assert "a member has no exactt, although it was judged; as said" in text and "nobody" not in text
    assert "nobody could judge it" in reasons.rejected(replace(event, detail=None), MEMBERS, 2)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (ConstantClass.ALL_ZERO, "all 2 members had 0"),
        (ConstantClass.CONSTANT, "all 2 members had 0.3"),
        (ConstantClass.ALL_MAX, "all 2 members had 1, the highest there is"),
    ],
)
def test_a_constant_group_says_what_all_had(kind: ConstantClass, says: str) -> None:
    reward = {ConstantClass.ALL_ZERO: 0.0, ConstantClass.CONSTANT: 0.3, ConstantClass.ALL_MAX: 1.0}[kind]
    members = [replace(m, reward=reward) for m in MEMBERS]
    assert reasons.rejected(constant("reward", kind), members, 2).endswith(says)


@pytest.mark.parametrize(
    ("filter", "metric", "rewards", "says"),
    [
        ("finished_zero_std", "reward", [0.0, 1.0, 1.0], "; all 2 finished members had 1, the highest there is"),
        ("zero_std", "raw", [-1.5, -1.0, -1.0], "; all 3 members had -1, the highest there is"),
        ("zero_std", "exact", [0.0, 0.5, 1.0], "; all 3 members had 7, the highest there is"),
        ("zero_std", "reward", [3.0, 1.0, 5.0], "not above 0.25"),  # a wide tol: constant, and yet not equal
        ("zero_std", "other", [1.0, 1.0, 1.0], "not above 0.25"),
    ],
)
def test_a_constant_group_tells_what_was_looked_at(filter: str, metric: str, rewards: list[float], says: str) -> None:
    members = [
        replace(MEMBERS[0], slot=n, reward=r, raw_score=-1.0, components={"exact": 7.0}) for n, r in enumerate(rewards)
    ]
    members[0] = replace(members[0], finish_reason=FinishReason.LENGTH)
    text = reasons.rejected(constant(metric, ConstantClass.ALL_MAX, filter), members, 3)
    assert text.endswith(says)


def constant(metric: str, kind: ConstantClass, filter: str = "zero_std") -> e.GroupRejected:
    plain = replace(REJECTED, reason=Reason.ZERO_STD, detail=None, guard_state={}, shadows=())
    return replace(plain, metric=metric, constant_class=kind, filter=filter)


def test_a_group_that_the_guard_keeps_says_who_would_have_rejected_it() -> None:
    scores = e.Scores(0.0, 0.0, 0.0, 9.0, None, None)
    kept = e.GroupAccepted(
        "1@0", PROMPT, 2, b"", 0, 0, 0, 0, scores, "zero_std", 0.0, 1e-8, {}, "hash", GUARD, True, SHADOWS, 0
    )
    text = reasons.accepted(kept)
    assert text.startswith(
        "kept by the guard, rejected by zero_std, measured 0 against 1e-08; the guard counts 12 of 30"
    )
    assert reasons.accepted(replace(kept, kept_by_guard=False)).startswith("accepted by zero_std, measured 0 against")


@pytest.mark.parametrize("reason", ExpiryReason)
def test_an_expiry_names_age_and_bytes(reason: ExpiryReason) -> None:
    event = e.GroupExpired("1@0", "sort", Purpose.TRAIN, reason, b"", 4321, 6, 0)
    text = reasons.expired(event, RULES)
    assert text.startswith(f"expired: {reason}, ") and text.endswith("6 versions of 5 allowed; 4321 bytes of payloads")
    assert "versions" not in reasons.expired(replace(event, staleness=None), None)


@pytest.mark.parametrize(
    ("reason", "number"),
    [
        (WaiverReason.SURPLUS, "a lead of 8"),
        (WaiverReason.ATTEMPTS_EXHAUSTED, "attempt 6 of 7"),
        (WaiverReason.SOURCE_EXHAUSTED, "no other prompt of sort"),
        (WaiverReason.RUN_COMPLETE, "its 41 steps"),
    ],
)
def test_a_waiver_names_the_bound_that_it_is_due_to(reason: WaiverReason, number: str) -> None:
    text = reasons.waived(e.ReplacementWaived("1@0", "sort", reason, 0), OPENED, RULES)
    assert text.startswith(f"gets no replacement: {reason}, ") and number in text
    assert "{" not in reasons.waived(e.ReplacementWaived("1@0", "sort", reason, 0), None, None)


def test_every_waiver_is_tested_above() -> None:
    assert len(WaiverReason) == 4


@pytest.mark.parametrize("reason", DiscardReason)
def test_a_discard_names_its_slot_and_length(reason: DiscardReason) -> None:
    event = e.ResponseDiscarded("1@0", 2, 3, "key", 100, 412, reason, Failure.TIMEOUT, 0)
    text = reasons.discarded(event, "slot 2 (round 3)")
    assert text.startswith(f"slot 2 (round 3) discarded: {reason}, ") and text.endswith(" (timeout); 412 tokens")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "reward 1"),
        ({"detail": "math: answer 42"}, "reward 1 (math: answer 42)"),
        ({"raw_score": 2.0, "penalties": -1.0}, "reward 1 (score 2, penalties -1)"),
        (
            {"reward": 0.0, "grading": Grading.UNGRADED, "detail": "verifier 'math' took over 5 s"},
            "reward 0, though nobody judged it (verifier 'math' took over 5 s)",
        ),
        (
            {"reward": None, "grading": Grading.UNGRADED, "discard": DiscardReason.FAILED, "detail": "no score"},
            "ungraded (no score)",
        ),
        (
            {"reward": None, "grading": Grading.FAILED, "failure": Failure.TIMEOUT, "detail": "over 9 s"},
            "failed (timeout: over 9 s)",
        ),
        (
            {"discard": DiscardReason.FILTERED, "detail": "max_tokens: 412 > 400"},
            "reward 1; the response filter refuses it (max_tokens: 412 > 400)",
        ),
        ({"detail": "x" * 301}, f"reward 1 ({'x' * 300}…)"),
    ],
)
def test_a_scored_response_tells_its_worth_how_far_it_is_known_and_why(fields: dict[str, Any], says: str) -> None:
    assert sentences.scored(replace(SCORED, **fields)) == f"slot 2 (round 3) judged in 1.5 s: {says}"


@pytest.mark.parametrize(("reward", "mean"), [(0.5, "0.5"), (1e308, "nan"), (float("inf"), "nan")])
def test_the_rewards_of_a_large_group_are_told_whatever_they_are(reward: float, mean: str) -> None:
    members = Members().encode(tuple(replace(MEMBERS[0], slot=n, reward=reward) for n in range(17)))
    scores = e.Scores(None, None, None, 9.0, None, None)
    event = e.GroupAssembled("1@0", PROMPT, Purpose.TRAIN, None, 17, members, 0, 0, 0, 0, scores, 0, 0)
    assert f"… (mean {mean} of 17)" in sentences.assembled(event, Members(), None)


@pytest.mark.parametrize(
    ("reason", "grading", "failure", "detail", "says"),
    [
        (DiscardReason.FILTERED, Grading.GRADED, None, "min_tokens: 3 < 8", "refused it (min_tokens: 3 < 8)"),
        (DiscardReason.FAILED, Grading.UNGRADED, None, "no score", "came to nothing (ungraded: no score)"),
        (DiscardReason.FAILED, Grading.UNGRADED, None, None, "came to nothing (ungraded)"),
        (DiscardReason.FAILED, Grading.FAILED, Failure.TIMEOUT, "9 s", "came to nothing (timeout: 9 s)"),
    ],
)
def test_a_discarded_response_tells_what_was_said_when_it_was_judged(
    reason: DiscardReason, grading: Grading, failure: Failure | None, detail: str | None, says: str
) -> None:
    scored = replace(SCORED, discard=reason, grading=grading, failure=failure, detail=detail)
    event = e.ResponseDiscarded("1@0", 2, 3, "key", 100, 412, reason, failure, 0)
    written = ((Topic.ROLLOUTS, scored), (Topic.DISCARDS, event))
    records = [Record(topic, 0, 0, 0, b"1@0", [], encode(each)) for topic, each in written]
    told = [line.text for line in trace("1@0", records)]
    assert told[-1].startswith(f"slot 2 (round 3) discarded: {reason}, ") and told[-1].endswith(f"{says}; 412 tokens")
    late = sentences.discarded(replace(event, reason=DiscardReason.LATE, failure=None), scored)
    assert late.endswith("had ended; 412 tokens")  # which was not for what it came to


@pytest.mark.parametrize("reason", SkipReason)
def test_a_skipped_batch_names_its_number(reason: SkipReason) -> None:
    assert reasons.skipped(e.BatchSkipped(17, reason, 0)).startswith(f"batch 17 skipped: {reason}, ")


def test_the_trace_of_every_unused_group_says_why(drive: Drive) -> None:
    ended = {e.GroupRejected: "rejected: ", e.GroupExpired: "expired: ", e.ReplacementWaived: "gets no replacement: "}
    log, seen = MemoryLog(drive.records), set[str]()
    for record in drive.records:
        event = record.event()
        start = ended.get(type(event))
        if start and isinstance(event, e.GroupRejected | e.GroupExpired | e.ReplacementWaived):
            told = [line.text for line in trace_run(log, event.group_id) if line.text.startswith(start)]
            assert len(told) == 1 and str(event.reason) in told[0]
            seen.add(start)
    assert len(seen) == 3


def test_members_without_a_reward_are_told_too() -> None:
    members = Members().decode(Members().encode(tuple(replace(m, reward=None) for m in MEMBERS)))
    event = constant("reward", ConstantClass.ALL_ZERO)
    assert "all 2 members" not in reasons.rejected(event, members, 2)
