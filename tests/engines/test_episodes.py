"""Episodes of several turns: what becomes of their tokens, and of everything that an environment may do."""

from __future__ import annotations

import asyncio
import contextlib
import math
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pipeline.domain.lead import seed_of
from pipeline.engines.door import admit
from pipeline.engines.episodes import Episodes, Limits
from pipeline.sdk import EpisodeRequest, Observation, Sample, SampleRequest, Turn
from pipeline.store import format as payload

LIMITS = Limits(max_turns=8, max_tokens=1000, step_timeout_s=30.0, episode_timeout_s=60.0)
REQUEST = SampleRequest("5@0/1.1", "start>", (7, 8), 99, False, {"level": 3}, group_seed=42)


class Words:
    """An engine whose turn n is the tokens n, n with log-probability -n/2; keeps what it was asked."""

    def __init__(self, batch: int = 4, concurrency: int = 1) -> None:
        self.batch, self.concurrency = batch, concurrency
        self.calls: list[list[SampleRequest]] = []
        self.version = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def load_policy(self, path: Path, version: int) -> None:
        self.version = version

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Any]:
        self.calls.append(list(requests))
        await self.gate.wait()
        return [self.turn(request, request.text.count("|") + 1) for request in requests]

    def turn(self, request: SampleRequest, n: int) -> Any:
        return Sample(array("i", [n, n]), array("f", [-n / 2, -n / 2]), f"t{n}|", entropy=float(n))


class Play:
    """An environment, and its only kind of episode: it answers as `script` says, turn by turn; an exception is raised,
    a float is slept through."""

    concurrency = 16

    def __init__(self, *script: Any, opening: Any = None) -> None:
        self.script, self.opening = script, opening or Observation()
        self.asked: list[EpisodeRequest] = []
        self.seen: list[Turn] = []
        self.closed = 0

    async def start(self, request: EpisodeRequest) -> Play:
        self.asked.append(request)
        return self

    async def step(self, turn: Turn) -> Observation:
        self.seen.append(turn)
        answer = self.script[(len(self.seen) - 1) % len(self.script)]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return Observation(done=True)
        found: Observation = answer
        return found

    async def close(self) -> None:
        self.closed += 1


SAY = Observation((50, 51, 52), "ok ", 0.25)
END = Observation((60,), "end", 1.0, done=True)


def played(environment: Any, engine: Any = None, **limits: Any) -> Sample:
    """The one episode of an environment."""
    made = Episodes(engine or Words(), environment, Limits(**{**_fields(), **limits}))

    async def play() -> Sample:
        await made.load_policy(Path("p"), 0)
        (sample,) = await made.generate([REQUEST])
        await asyncio.sleep(0)  # the end of an episode is told to its environment by a task of its own
        await asyncio.sleep(0)
        return sample

    return asyncio.run(play())


def _fields() -> dict[str, Any]:
    return {name: getattr(LIMITS, name) for name in Limits.__dataclass_fields__}


def test_turns_and_what_the_environment_writes_are_one_response_with_segments():
    environment, engine = Play(SAY, SAY, END, opening=Observation((40,), "you: ")), Words()
    sample = played(environment, engine)
    assert sample.failed is None and sample.finish_reason == "stop" and sample.env_reward == 1.5
    assert sample.text == "you: t1|ok t2|ok t3|end"
    found = admit(sample, 7)
    assert list(memoryview(found.response_ids.data).cast("i")) == [40, 1, 1, 50, 51, 52, 2, 2, 50, 51, 52, 3, 3, 60]
    assert list(found.loss_mask.data) == [0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0]
    logprobs = [0, -0.5, -0.5, 0, 0, 0, -1, -1, 0, 0, 0, -1.5, -1.5, 0]
    assert found.logprobs is not None and list(memoryview(found.logprobs.data).cast("f")) == logprobs
    assert sample.entropy == 2.0
    assert not (sample.drop_flag or sample.env_failed or sample.env_timeout)
    assert environment.seen[:2] == [Turn((1, 1), "t1|", "stop"), Turn((2, 2), "t2|", "stop")]
    assert environment.closed == 1
    asked = [call[0] for call in engine.calls]
    assert [request.token_ids for request in asked[:2]] == [(7, 8, 40), (7, 8, 40, 1, 1, 50, 51, 52)]
    assert asked[1].text == "start>you: t1|ok " and asked[1].metadata == {"level": 3}
    assert [request.seed for request in asked] == [seed_of(99, turn) for turn in range(3)]


def test_an_episode_of_several_segments_and_versions_survives_its_payload():
    sample = played(Play(SAY, END))
    found = admit(sample, 0)
    value, _ = payload.encode(
        payload.Payload(
            b"{}", sample.text, payload.Array("int32", bytes(8)), found.response_ids, found.logprobs,
            found.loss_mask, ((0, 5, 3), (5, found.tokens, 4)),
        )
    )  # fmt: skip
    again = payload.decode(value)
    assert bytes(again.loss_mask.data) == bytes([1, 1, 0, 0, 0, 1, 1, 0])
    assert again.version_spans == ((0, 5, 3), (5, 8, 4)) and again.text == sample.text


def test_the_start_is_decided_by_the_group_the_turns_by_the_response():
    environment = Play(END)
    played(environment)
    (asked,) = environment.asked
    assert (asked.seed, asked.response_id, asked.token_ids, asked.evaluation) == (42, "5@0/1.1", (7, 8), False)


def test_a_policy_that_is_loaded_between_two_turns_is_named_in_the_spans():
    async def play() -> Sample:
        engine = Words()
        made = Episodes(engine, Play(SAY, SAY, SAY, END), LIMITS)
        await made.load_policy(Path("a"), 3)
        engine.gate.clear()
        playing = asyncio.ensure_future(made.generate([REQUEST]))
        while not engine.calls:
            await asyncio.sleep(0)
        loading = asyncio.ensure_future(made.load_policy(Path("b"), 4))
        await asyncio.sleep(0.01)
        assert not loading.done(), "a turn is of one policy"
        engine.gate.set()
        await loading
        return (await playing)[0]

    sample = asyncio.run(play())
    assert sample.version_spans == ((0, 2, 3), (2, 18, 4)), "what is written is of the turn that reads it"
    assert admit(sample, 9).spans == sample.version_spans


def test_turns_of_many_episodes_share_calls():
    async def play() -> list[int]:
        engine = Words(batch=4)
        made = Episodes(engine, _Many(), LIMITS)
        await made.load_policy(Path("p"), 0)
        samples = await asyncio.gather(*(made.generate([REQUEST]) for _ in range(6)))
        assert all(sample.env_reward == 1.25 for (sample,) in samples)
        return [len(call) for call in engine.calls]

    assert asyncio.run(play()) == [4, 2, 4, 2]


class _Many:
    concurrency = 8

    async def start(self, request: EpisodeRequest) -> Play:
        return Play(SAY, END)


@pytest.mark.parametrize(
    ("environment", "limits", "failure", "detail"),
    [
        (Play(SAY, ValueError("lost")), {}, "env_failed", "turn 2: the environment's step raised ValueError: lost"),
        (Play(asyncio.CancelledError()), {}, "env_failed", "turn 1: the environment's step raised _Cancelled"),
        (Play(SAY, 9.0), {"step_timeout_s": 0.01}, "timeout", "turn 2: the environment's step took over 0.01 s"),
        (Play(SAY, 9.0), {"episode_timeout_s": 0.02}, "timeout", "turn 2: the episode took over 0.02 s"),
        (Play("fine"), {}, "env_failed", "turn 1: the environment gave a str; expected a pipeline.sdk.Observation"),
        (Play(Observation(reward=math.nan)), {}, "env_failed", "the environment's reward is nan; expected a finite"),
        (Play(Observation(reward=True)), {}, "env_failed", "the environment's reward is True; expected a number"),
        (Play(Observation((1.5,))), {}, "env_failed", "the environment's token_ids[0] is 1.5; expected a whole number"),  # type: ignore[arg-type]
        (Play(Observation(text=3)), {}, "env_failed", "the environment's text is a int; expected a str"),  # type: ignore[arg-type]
        (Play(Observation(reward=1e308)), {}, "env_failed", "the sum of the environment's rewards is not finite"),
        (object(), {}, "env_failed", "the environment's start raised AttributeError"),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value else "",
)  # fmt: skip
def test_whatever_an_environment_does_is_an_answer(environment: Any, limits: Any, failure: str, detail: str):
    if not hasattr(environment, "concurrency"):
        environment = type("Nothing", (), {"concurrency": 1})()
    sample = played(environment, **limits)
    assert sample.failed == failure and detail in (sample.detail or "")
    assert getattr(environment, "closed", 1) == 1
    stands = played(_again(environment), **limits, on_failure="zero")
    assert stands.failed is None and detail in (stands.detail or "")
    assert (stands.env_reward, stands.drop_flag) == (0.0, True)
    assert (stands.env_failed, stands.env_timeout) == (failure == "env_failed", failure == "timeout")
    found = admit(stands, 2)
    assert found.tokens > 0 and not any(found.loss_mask.data), "nothing of it is trained on"


def _again(environment: Any) -> Any:
    return Play(*environment.script) if isinstance(environment, Play) else environment


def test_an_episode_that_never_began_stands_as_the_last_token_of_its_prompt():
    class Refuses(Play):
        async def start(self, request: EpisodeRequest) -> Play:
            raise OSError("no sandbox")

    sample = played(Refuses(), on_failure="zero")
    assert list(sample.token_ids) == [8] and sample.detail == "the environment's start raised OSError: no sandbox"
    assert admit(sample, 6).spans == ((0, 1, 6),)


def test_a_deaf_environment_holds_nobody_up():
    class Deaf(Play):
        async def step(self, turn: Turn) -> Observation:
            while True:
                try:
                    await asyncio.sleep(0.2)
                    return END
                except asyncio.CancelledError:
                    continue

    sample = played(Deaf(), step_timeout_s=0.02)
    assert sample.failed == "timeout"


def test_an_episode_that_begins_too_late_is_closed():
    class Slow(Play):
        async def start(self, request: EpisodeRequest) -> Play:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(9)
            return self

    environment = Slow()
    sample = played(environment, step_timeout_s=0.01)
    assert (sample.failed, sample.detail) == ("timeout", "the environment's start took over 0.01 s")
    assert environment.closed == 1


def test_a_call_of_the_engine_that_nobody_waits_for_is_cancelled():
    async def play() -> tuple[Sample, list[str]]:
        engine = Stuck()
        made = Episodes(engine, Play(SAY), Limits(**{**_fields(), "episode_timeout_s": 0.02}))
        await made.load_policy(Path("p"), 0)
        (sample,) = await made.generate([REQUEST])
        await made.load_policy(Path("q"), 1)  # which no call stands in the way of
        return sample, engine.said

    class Stuck(Words):
        said: ClassVar[list[str]] = []

        async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Any]:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.said.append("cancelled")
                raise
            return []

    sample, said = asyncio.run(play())
    assert (sample.failed, sample.detail, said) == ("timeout", "the episode took over 0.02 s", ["cancelled"])


@pytest.mark.parametrize(
    ("turn", "failure", "detail"),
    [
        (lambda: Sample((), (), ""), "empty", "the response has no tokens"),
        (lambda: Sample((1,), (0.5,), "x"), "env_failed", "logprobs[0] is 0.5; expected at most 0"),
        (lambda: Sample((1,), (-0.5,), "x", "abort"), "aborted", "the engine aborted it"),
        (lambda: 1 / 0, "env_failed", "the engine raised ZeroDivisionError"),
        (lambda: _cancels(), "aborted", "the engine cancelled the call"),
    ],
)
def test_a_turn_that_the_engine_fails_fails_the_episode(turn: Callable[[], Any], failure: str, detail: str):
    class Bad(Words):
        def turn(self, request: SampleRequest, n: int) -> Any:
            return turn()

    for policy in ("drop_response", "zero"):
        sample = played(Play(SAY, END), Bad(), on_failure=policy)
        assert sample.failed == failure and detail in (sample.detail or "")


def _cancels() -> None:
    raise asyncio.CancelledError


def test_a_wrong_number_of_turns_fails_those_who_asked():
    class Short(Words):
        async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Any]:
            return []

    assert played(Play(END), Short()).detail == (
        "the engine raised RuntimeError: 0 samples for 1 requests; expected one for each, in order"
    )


@pytest.mark.parametrize(("limits", "turns"), [({"max_turns": 3}, 3), ({"max_tokens": 14}, 3), ({"max_tokens": 1}, 0)])
def test_an_episode_over_its_limits_is_cut_and_keeps_its_rewards(limits: Any, turns: int):
    environment = Play(SAY)
    sample = played(environment, **limits)
    assert (len(environment.seen), sample.finish_reason, sample.env_reward) == (turns, "length", 0.25 * turns)


def test_a_dropped_episode_is_flagged_keeps_its_reward_and_is_masked_out():
    sample = played(Play(SAY, Observation((), "", 0.5, True, drop=True)))
    assert (sample.drop_flag, sample.env_failed, sample.env_reward, sample.failed) == (True, False, 0.75, None)
    assert not any(admit(sample, 0).loss_mask.data)


def test_a_cancelled_call_closes_its_episode():
    async def play() -> int:
        environment, engine = Play(SAY), Words()
        engine.gate.clear()
        made = Episodes(engine, environment, LIMITS)
        playing = asyncio.ensure_future(made.generate([REQUEST]))
        while not engine.calls:
            await asyncio.sleep(0)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        await asyncio.sleep(0.01)
        return environment.closed

    assert asyncio.run(play()) == 1


def test_tokens_beyond_32_bits_and_turns_without_logprobs_pass_as_they_are():
    class Wide(Words):
        def turn(self, request: SampleRequest, n: int) -> Any:
            return Sample([2**40], None, "w")

    found = admit(played(Play(Observation((3,)), END), Wide()), 0)
    assert found.response_ids.dtype == "int64" and found.logprobs is None
