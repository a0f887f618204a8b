"""The scorer on a real broker and a real Redis."""

from __future__ import annotations

import signal
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from pipeline.domain import events as e
from pipeline.domain.advice import FILTERED
from pipeline.domain.open_groups import OpenGroup
from pipeline.domain.topology import StageName, Topic
from pipeline.domain.vocabulary import DiscardReason, Failure, FinishReason, Grading, Purpose
from pipeline.history.status import status_of
from pipeline.local import Services
from pipeline.prompts import task
from pipeline.store.format import Array, Payload, encode
from pipeline.store.keys import fresh_key
from pipeline.verifiers.returned import EXPECTED
from tests.facts.rig import DEADLINE_S, FINISHED, Rig, a_task, eventually

pytestmark = pytest.mark.contract

READY = {"factory": "tests.facts.plugins:Ready"}


def generated(rig: Rig, slot: int, text: str, n: int = 0, round: int = 1, **rest: Any) -> e.ResponseGenerated:
    """A response, its payload written. `verifiers`: the task's; `grading`: all that is graded by; `tokens`: its ids."""
    verifiers, tokens = rest.pop("verifiers", ("exact",)), rest.pop("tokens", (1, 2, 3))
    grading = rest.pop("grading", None) or task.grading_bytes(task.decode(a_task("42", verifiers)))
    ids = array("i", tokens)
    logprobs, mask = array("f", [-0.5] * len(ids)), b"\1" * len(ids)
    value, head = encode(
        Payload(
            grading, text, Array("int32", b""), Array("int32", ids.tobytes()), Array("float32", logprobs.tobytes()),
            Array("uint8", mask), (),
        )
    )  # fmt: skip
    key = fresh_key(rig.run, f"{n}@0", slot, round)
    rig.store.put_many([(key, value)], 60_000)
    return response(slot, n, round, payload_key=key, payload_bytes=len(value), head_bytes=head, **rest)


def response(slot: int, n: int = 0, round: int = 1, **rest: Any) -> e.ResponseGenerated:
    fields: dict[str, Any] = {
        "group_id": f"{n}@0", "slot": slot, "round": round, "purpose": Purpose.TRAIN, "payload_key": None,
        "payload_bytes": 0, "head_bytes": 0, "failure": None, "detail": None, "finish_reason": FinishReason.STOP,
        "prompt_tokens": 3, "response_tokens": 3, "oldest_version": 1, "newest_version": 2, "entropy": None,
        "env_reward": None, "drop_flag": False, "env_timeout": False, "env_failed": False, "sampling_ms": 1,
        "generator": "g", "at": 0,
    }  # fmt: skip
    return e.ResponseGenerated(**(fields | rest))


def scored(rig: Rig, responses: Sequence[e.ResponseGenerated]) -> dict[tuple[int, int], e.ResponseScored]:
    """What the scorer says, by slot and round."""
    rig.write(Topic.RESPONSES, [*responses, FINISHED])
    with rig.scorer(until_finished=True) as served:
        served.wait()
    *found, last = rig.read(Topic.ROLLOUTS)
    assert last == FINISHED and len(found) == len(responses)
    return {(s.slot, s.round): s for s in found if isinstance(s, e.ResponseScored)}


def test_scores_belong_to_their_slots_and_rounds(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path, group_size=5, record_text="all")
    empty = response(3, failure=Failure.EMPTY, detail="the response has no tokens", payload_bytes=0)
    texts = {4: "42", 0: "42", 2: "137", 1: "I don't know."}
    responses = [generated(rig, slot, text) for slot, text in texts.items()]
    found = scored(rig, [responses[0], empty, *responses[1:], generated(rig, 3, "137", round=2)])
    rewards = {place: s.reward for place, s in found.items()}
    assert rewards == {(0, 1): 1.0, (1, 1): 0.0, (2, 1): 0.0, (3, 1): None, (4, 1): 1.0, (3, 2): 0.0}
    assert (found[3, 1].grading, found[3, 1].failure) == (Grading.FAILED, Failure.EMPTY)
    assert found[3, 1].discard is DiscardReason.FAILED
    assert all(s.grading is Grading.GRADED for place, s in found.items() if place != (3, 1))
    assert found[2, 1].text == "137" and found[1, 1].text == "I don't know." and found[3, 1].text is None
    assert rig.causes(Topic.ROLLOUTS)[0] is not None
    assert {c for c in rig.causes(Topic.ROLLOUTS)} == {f"scorer/responses/0/{offset}/0" for offset in range(7)}


def test_an_admitted_payload_has_no_lease(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    one = generated(rig, 0, "42")
    scored(rig, [one])
    client = redis.Redis.from_url(services.redis_url)
    assert client.ttl(one.payload_key or "") == -1
    client.close()


ANSWERS = [
    "Score(1.0)",
    "Score(None)",
    "{'teacher_logprobs': [-1.0, -2.0]}",
    "Score({'a': 1})",
    "Score(0.5, 'ok', {'b': 'c'})",
    "None",
    "nan",
    "Score(nan)",
    "'right'",
    "Score(None, 'refused', detail='it would not say')",
    "Score(0.5, penalty=nan)",
]


@pytest.mark.parametrize("policy", ["zero", "drop_response", "raise"])
def test_what_a_verifier_cannot_say_is_decided_by_its_policy(
    services: Services, run_name: str, tmp_path: Path, policy: str
):
    rig = Rig(services, run_name, tmp_path, verifiers={"judge": {**READY, "on_failure": policy}})
    found = scored(rig, [generated(rig, slot, text, verifiers=["judge"]) for slot, text in enumerate(ANSWERS)])
    assert (found[0, 1].reward, found[0, 1].grading, found[0, 1].discard) == (1.0, Grading.GRADED, None)
    for slot in range(1, len(ANSWERS)):
        s = found[slot, 1]
        kept = policy == "zero"
        assert s.grading is Grading.UNGRADED and s.failure is None
        assert (s.reward, s.raw_score) == ((0.0, 0.0) if kept else (None, None))
        assert s.discard is (None if kept else DiscardReason.FAILED)
    assert found[2, 1].detail == (
        "verifier 'judge' returned a dict; expected a pipeline.sdk.Score with a value that is a finite number or None, "
        "and components that are numbers by name; or just such a value"
    )
    assert "whose value is a dict" in (found[3, 1].detail or "")
    assert "components that are no numbers" in (found[4, 1].detail or "")
    assert found[5, 1].detail == "verifier 'judge' gave no score"
    assert all(f"verifier 'judge' returned nan; expected a {EXPECTED}" == found[slot, 1].detail for slot in (6, 7))
    assert (found[8, 1].detail or "").startswith("verifier 'judge' returned a str; expected")
    assert found[9, 1].detail == "verifier 'judge': it would not say"
    assert "a Score whose penalty is nan" in (found[10, 1].detail or "")
    ended = [event for event in rig.read(Topic.LEDGER) if isinstance(event, e.StageFailed)]
    assert len(ended) == (1 if policy == "raise" else 0)  # once, however many responses it concerns


def test_what_no_response_could_ever_get_ends_the_run_whatever_the_policy(
    services: Services, run_name: str, tmp_path: Path
):
    judge = {"factory": "tests.facts.plugins:Ready", "on_failure": "zero"}
    rig = Rig(services, run_name, tmp_path, verifiers={"judge": judge, "other": judge})
    second = "Score(None, 'misconfigured', detail='the target is empty')"
    found = scored(
        rig, [generated(rig, 0, "misconfigured", verifiers=["judge"]), generated(rig, 1, second, verifiers=["other"])]
    )
    assert found[0, 1].detail == "verifier 'judge' can't judge: there is no judge of that name"
    assert found[1, 1].detail == "verifier 'other': the target is empty"
    assert all((s.grading, s.reward) == (Grading.UNGRADED, None) for s in found.values())
    [ended] = rig.read(Topic.LEDGER)[1:]
    assert isinstance(ended, e.StageFailed) and ended.stage == "scorer"
    assert ended.detail in {s.detail for s in found.values()}


def test_a_response_without_text_has_failed(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    found = scored(rig, [generated(rig, 0, ""), generated(rig, 1, "42"), generated(rig, 2, " ")])
    assert (found[0, 1].grading, found[0, 1].failure, found[0, 1].reward) == (Grading.FAILED, Failure.EMPTY, None)
    assert (found[1, 1].reward, found[2, 1].reward) == (1.0, 0.0)


@pytest.mark.parametrize("text", ["all", "none"])
def test_the_answer_that_a_verifier_read_is_recorded_where_the_text_is(
    services: Services, run_name: str, tmp_path: Path, text: str
):
    """Three of five have an answer, in whatever order they are finished: none moves to another's place."""
    gsm8k = {"factory": "pipeline.verifiers.gsm8k:Gsm8k"}
    rig = Rig(services, run_name, tmp_path, group_size=5, record_text=text, verifiers={"gsm8k": gsm8k})
    texts = {4: r"\boxed{42}", 3: "", 0: r"\boxed{42}", 2: r"\boxed{137}", 1: "I don't know."}
    responses = [generated(rig, slot, given, verifiers=["gsm8k"]) for slot, given in texts.items()]
    found = scored(rig, [*responses, generated(rig, 3, r"\boxed{137}", round=2, verifiers=["gsm8k"])])
    rewards = {place: s.reward for place, s in found.items()}
    assert rewards == {(0, 1): 1.0, (1, 1): 0.0, (2, 1): 0.0, (3, 1): None, (4, 1): 1.0, (3, 2): 0.0}
    answers = {(0, 1): "42", (2, 1): "137", (3, 2): "137", (4, 1): "42"} if text == "all" else {}
    told = {place: s.detail for place, s in found.items() if s.detail and s.failure is None}
    assert told == {place: f"gsm8k: answer {answer}" for place, answer in answers.items()}


@pytest.mark.parametrize("on_error", ["reject", "keep", "raise"])
def test_what_a_broken_predicate_decides_is_its_policy(
    services: Services, run_name: str, tmp_path: Path, on_error: str
):
    predicate = {"type": "custom", "factory": "tests.facts.plugins:rejects_bad", "on_error": on_error}
    rig = Rig(services, run_name, tmp_path, response_filter=[predicate])
    found = scored(rig, [generated(rig, slot, text) for slot, text in enumerate(["42", "broken", "odd", "42 bad"])])
    assert found[0, 1].reward == 1.0 and found[3, 1].discard is DiscardReason.FILTERED
    kept = on_error == "keep"
    for slot, why in ((1, "ValueError: broken"), (2, "TypeError: tests.facts.plugins:rejects_bad answered str")):
        s = found[slot, 1]
        assert s.discard is (None if kept else DiscardReason.FILTERED)
        assert (s.grading, s.reward) == (Grading.GRADED, 0.0)  # no outage of the verifier, which judged it
        assert kept or (s.detail or "").startswith(f"the response filter raised {why}")
    opened = e.GroupOpened(
        "0@0", e.PromptRef("p", "math", 0, 0), Purpose.TRAIN, None, "0@0", None, 1, 5, 4, 0, 0, None, 0
    )
    group = OpenGroup(opened, 0, 0, 0, [], [])
    group.lose(found[1, 1])
    assert kept or group.setbacks(late=False) == {FILTERED: 1}  # which starvation is then told of
    assert len(rig.read(Topic.LEDGER)[1:]) == (1 if on_error == "raise" else 0)


def test_an_exception_and_a_timeout_leave_responses_ungraded(services: Services, run_name: str, tmp_path: Path):
    slow = {**READY, "options": {"seconds": 3600}, "timeout_s": 0.2}
    rig = Rig(services, run_name, tmp_path, verifiers={"judge": READY, "slow": slow})
    rig.write(
        Topic.RESPONSES,
        [
            generated(rig, 0, "raise", verifiers=["judge"]),
            generated(rig, 1, "Score(1.0)", verifiers=["slow"]),
            FINISHED,
        ],
    )
    with rig.scorer(until_finished=True) as served:
        served.wait()
    first, second, _ = sorted(rig.read(Topic.ROLLOUTS), key=lambda s: getattr(s, "slot", 9))
    assert first.detail == "verifier 'judge' raised RuntimeError: the judge is on strike"
    assert second.detail == "verifier 'slow' took over 0.2 s"
    assert second.grading_attempts == 1 and second.grading_ms >= 200
    health = served.work.judges["slow"].health.total
    assert (health.calls, health.responses, health.failures, health.timeouts) == (1, 1, 1, 1)


def test_an_outage_shows_in_status_although_no_group_ends(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path, verifiers={"judge": READY})
    scored(rig, [generated(rig, slot, "raise", verifiers=["judge"]) for slot in range(4)])
    status = status_of(rig.connection, rig.rules, rig.store, rig.started.config.verifiers)
    assert status["groups_opened"] == 0 and status["problems"] == [
        "verifier judge: 4 of 4 calls failed in the last 60 s: "
        "verifier 'judge' raised RuntimeError: the judge is on strike"
    ]


def test_a_reward_is_the_weighted_sum_and_its_components_are_kept(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(
        services,
        run_name,
        tmp_path,
        verifiers={"judge": READY, "exact": {"factory": "pipeline.verifiers.exact:ExactMatch"}},
    )
    text = "Score(0.5, 'ok', {'format': 1, 'judge': 0.25})"
    found = scored(
        rig,
        [generated(rig, 0, text, verifiers=["judge", "exact"]), generated(rig, 1, "True", verifiers=["judge"])],
    )
    assert found[0, 1].reward == found[0, 1].raw_score == 0.5
    assert found[0, 1].components == {"judge": 0.5, "format": 1.0, "judge.judge": 0.25, "exact": 0.0}
    assert (found[1, 1].reward, found[1, 1].grading) == (1.0, Grading.GRADED)  # a plain value will do


def test_payloads_that_are_gone_or_damaged_are_failures(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    gone, damaged, sound = (generated(rig, slot, "42") for slot in range(3))
    rig.store.drop([gone.payload_key or ""])
    client = redis.Redis.from_url(services.redis_url)
    client.setrange(damaged.payload_key or "", 60, b"?")
    client.close()
    found = scored(rig, [gone, damaged, sound])
    for slot, part in ((0, "is not in Redis"), (1, "checksum of the head")):
        s = found[slot, 1]
        assert (s.grading, s.failure, s.discard) == (Grading.FAILED, Failure.PAYLOAD_EXPIRED, DiscardReason.FAILED)
        assert part in (s.detail or "")
    assert found[2, 1].reward == 1.0


def test_an_environments_reward_stands_where_no_verifier_is_named(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    found = scored(
        rig,
        [
            generated(rig, 0, "x", verifiers=[], env_reward=0.75),
            generated(rig, 1, "x", verifiers=[]),
            generated(rig, 2, "x", verifiers=["nobody"]),
            generated(rig, 3, "x", verifiers=[], env_reward=0.0, drop_flag=True, env_failed=True, detail="lost"),
        ],
    )
    broken = found[3, 1]
    assert (broken.reward, broken.grading, broken.discard, broken.detail) == (0.0, Grading.UNGRADED, None, "lost")
    assert (broken.drop_flag, broken.env_failed, broken.env_timeout) == (True, True, False)
    assert (found[0, 1].reward, found[0, 1].grading) == (0.75, Grading.GRADED)
    assert (found[1, 1].reward, found[1, 1].grading) == (None, Grading.UNGRADED)
    assert found[2, 1].detail == "the task names verifier 'nobody', which isn't configured"
    assert any(isinstance(event, e.StageFailed) for event in rig.read(Topic.LEDGER))


PREDICATES = [
    {"type": "invalid_format", "pattern": "x"},
    {"type": "truncated"},
    {"type": "min_tokens", "value": 2},
    {"type": "max_tokens", "value": 6},
    {"type": "max_repetition", "ngram": 2, "share": 0.4},
    {"type": "custom", "factory": "tests.facts.plugins:rejects_bad"},
]


def test_the_response_filter_rejects_training_responses_and_says_why(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path, response_filter=PREDICATES)
    found = scored(
        rig,
        [
            generated(rig, 0, "x"),
            generated(rig, 1, "y"),
            generated(rig, 2, "x", finish_reason=FinishReason.LENGTH),
            generated(rig, 3, "x", response_tokens=1),
            generated(rig, 4, "x", response_tokens=7),
            generated(rig, 5, "x", tokens=(1, 2, 1, 2, 1, 2)),
            generated(rig, 6, "x bad"),
            generated(rig, 7, "x broken"),
            generated(rig, 8, "y bad", purpose=Purpose.EVAL, finish_reason=FinishReason.LENGTH),
        ],
    )
    assert [found[slot, 1].detail for slot in range(9)] == [
        None,
        "invalid_format: 'x' is not found",
        "truncated",
        "min_tokens: 1 < 2",
        "max_tokens: 7 > 6",
        "max_repetition: 0.600 > 0.4",
        "custom: tests.facts.plugins:rejects_bad",
        "the response filter raised ValueError: broken",
        None,
    ]
    assert [found[slot, 1].discard for slot in range(9)] == [None, *[DiscardReason.FILTERED] * 7, None]
    assert found[1, 1].reward == 0.0 and found[8, 1].text == "y bad" and found[0, 1].text is None


def test_a_killed_scorer_scores_again_and_nothing_shows_twice(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    rig.write(Topic.RESPONSES, [*(generated(rig, slot, "42") for slot in range(4)), FINISHED])
    assert rig.process("scorer", TAMIS_CRASH_AT="scorer:produced:1").wait(DEADLINE_S) == -signal.SIGKILL
    assert rig.process("scorer", "--until-finished").wait(DEADLINE_S) == 0
    *found, last = rig.read(Topic.ROLLOUTS)
    assert last == FINISHED and sorted(s.slot for s in found) == [0, 1, 2, 3]


def test_a_slow_verdict_holds_up_neither_others_nor_the_end(services: Services, run_name: str, tmp_path: Path):
    slow = {**READY, "options": {"seconds": 2.0}}
    rig = Rig(services, run_name, tmp_path, verifiers={"judge": READY, "slow": slow})
    first = generated(rig, 0, "Score(1.0)", verifiers=["slow"])
    rig.write(
        Topic.RESPONSES, [first, *(generated(rig, slot, "Score(0.0)", verifiers=["judge"]) for slot in (1, 2, 3))]
    )
    with rig.scorer() as served:
        rig.until(Topic.ROLLOUTS, 3)
        eventually(lambda: rig.committed(StageName.SCORER)[1].done == b"\x0e", "three of four are noted as finished")
        assert rig.committed(StageName.SCORER)[0] == 0
        served.stop()
    rig.write(Topic.RESPONSES, [FINISHED])
    with rig.scorer(until_finished=True) as served:
        served.wait()
    found = rig.read(Topic.ROLLOUTS)
    assert [getattr(s, "slot", None) for s in found][-2:] == [0, None] and len(found) == 5


def test_responses_change_hands_and_each_is_scored_once(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path, partitions=2, filter_partitions=2)
    for partition in (0, 1):
        rig.write(Topic.RESPONSES, [generated(rig, slot, "42") for slot in range(200)], partition)
    with rig.scorer("one"):
        rig.until(Topic.ROLLOUTS, 1)
        with rig.scorer("two"):
            rig.write(Topic.RESPONSES, [generated(rig, slot, "42") for slot in range(200, 300)], 0)
            rig.write(Topic.RESPONSES, [generated(rig, slot, "42") for slot in range(200, 300)], 1)
            rig.until(Topic.ROLLOUTS, 600)
    causes = rig.causes(Topic.ROLLOUTS)
    assert len(causes) == len(set(causes)) == 600
