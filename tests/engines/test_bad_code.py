"""A user's own engine or environment answers, or its failure does; it ends nothing, and what is told can be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.engines.door import Refused, admit
from pipeline.engines.episodes import Episodes, Limits
from pipeline.engines.policies import Policy, Unusable, load
from pipeline.engines.turns import Turns
from pipeline.sdk import Observation, Sample, SampleRequest
from tests.bad_code import CANCELLED, ERRORS, ESCAPED, HALF, HUGE, HUGER, Shy, raising, returning

REQUEST = SampleRequest("5@0/1.1", "start>", (7, 8), 99, False, {}, group_seed=42)
LIMITS = Limits(4, 1000, 30.0, 60.0)
RAISED = pytest.mark.parametrize(("error", "told"), list(ERRORS.values()), ids=list(ERRORS))


class Engine:
    """Answers as its function does."""

    batch, concurrency = 1, 1

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer

    async def load_policy(self, path: Path, version: int) -> None:
        if path.name == "broken":
            self._answer()

    async def generate(self, requests: Any) -> Any:
        return self._answer(requests)


class World:
    """An environment, and its episode, whose start, opening, step or close does as its function does."""

    concurrency = 1

    def __init__(self, where: str, answer: Callable[..., Any]) -> None:
        self._where, self._answer = where, answer

    async def start(self, request: Any) -> Any:
        return self._answer() if self._where == "start" else self

    @property
    def opening(self) -> Any:
        return self._answer() if self._where == "opening" else Observation()

    async def step(self, turn: Any) -> Any:
        return self._answer() if self._where == "step" else Observation(done=True)

    async def close(self) -> None:
        if self._where == "close":
            self._answer()


SAYS = returning([Sample((1,), (-0.5,), "x")])


def played(world: World, answer: Callable[..., Any] = SAYS) -> Sample:
    async def play() -> Sample:
        episodes = Episodes(Engine(answer), world, LIMITS)
        await episodes.load_policy(Path("p"), 0)
        (sample,) = await episodes.generate([REQUEST])
        await asyncio.sleep(0.01)  # its close is awaited by nobody
        return sample

    return asyncio.run(play())


@pytest.mark.parametrize("where", ["start", "opening", "step"])
@RAISED
def test_an_environment_that_raises_whatever_it_is_fails_its_episode(where: str, error: BaseException, told: str):
    sample = played(World(where, raising(error)))
    assert sample.failed == "env_failed" and f"{where} raised {told}"[:3_900] in (sample.detail or "")
    (sample.detail or "").encode()


@RAISED
def test_an_episode_that_cannot_be_closed_has_ended_all_the_same(error: BaseException, told: str):
    assert played(World("close", raising(error))).failed is None


@RAISED
def test_an_engine_that_raises_whatever_it_is_fails_its_episode(error: BaseException, told: str):
    sample = played(World("", returning(None)), raising(error))
    assert sample.failed == "env_failed" and f"the engine raised {told}"[:3_900] in (sample.detail or "")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "gave a NoneType; expected a pipeline.sdk.Observation"),
        (Observation(reward=HUGE), "the environment's reward is 1000"),
        (Observation(reward=Shy()), "the environment's reward is (Shy"),  # type: ignore[arg-type]
        (Observation((HUGER,)), "the environment's token_ids[0] is"),
        (Observation(Shy()), "the environment's observation can't be read: RuntimeError"),  # type: ignore[arg-type]
        (Observation(done=Shy()), "the environment's observation can't be read: RuntimeError: no truth"),  # type: ignore[arg-type]
        (Observation(drop=Shy()), "the environment's observation can't be read: RuntimeError: no truth"),  # type: ignore[arg-type]
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_an_environment_that_answers_whatever_it_is_fails_its_episode(answer: Any, told: str):
    sample = played(World("step", returning(answer)))
    assert sample.failed == "env_failed" and told in (sample.detail or "")


def test_flags_and_rewards_of_numpy_are_taken():
    sample = played(World("step", returning(Observation((), HALF, np.float32(0.5), np.True_, np.True_))))  # type: ignore[arg-type]
    assert (sample.failed, sample.env_reward, sample.drop_flag) == (None, 0.5, True)


@pytest.mark.parametrize(
    "sample",
    [
        None,
        Sample(Shy(), None, "x"),  # type: ignore[arg-type]
        Sample((HUGER,), None, "x"),
        Sample((1,), (Shy(),), "x"),  # type: ignore[arg-type]
        Sample((1,), None, "x", Shy()),  # type: ignore[arg-type]
        Sample((1,), None, "x", loss_mask=Shy()),  # type: ignore[arg-type]
        Sample((1,), None, "x", version_spans=Shy()),  # type: ignore[arg-type]
        Sample((1,), None, "x", entropy=Shy()),  # type: ignore[arg-type]
        Sample((1,), None, "x", env_reward=HUGER),
        Sample((1,), None, "x", drop_flag=Shy()),  # type: ignore[arg-type]
        Sample((1,), None, "x", detail=Shy()),  # type: ignore[arg-type]
        Sample((1,), None, "x", failed=Shy()),  # type: ignore[arg-type]
    ],
)
def test_a_sample_that_is_whatever_it_is_is_refused(sample: Any):
    with pytest.raises(Refused) as caught:
        admit(sample, 0)
    assert caught.value.detail
    caught.value.detail.encode()


def test_what_an_engine_says_of_a_failure_can_be_written():
    with pytest.raises(Refused, match="ud83d") as caught:
        admit(Sample((), (), "", failed="timeout", detail=HALF), 0)
    assert caught.value.detail == ESCAPED


@pytest.mark.parametrize(("error", "told"), [*ERRORS.values(), CANCELLED], ids=[*ERRORS, "cancelled"])
def test_a_policy_that_an_engine_cannot_load_is_unusable(
    error: BaseException, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "broken").write_bytes(b"")
    policy = Policy(3, "broken", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    monkeypatch.setattr("pipeline.engines.policies.ATTEMPTS", 1)
    with pytest.raises(Unusable) as caught:
        asyncio.run(load(Engine(raising(error)), tmp_path, policy))
    assert told in caught.value.detail
    caught.value.detail.encode()


def test_a_cancellation_from_outside_ends_a_call_of_the_engine():
    async def ends() -> bool:
        class Waits(Engine):
            async def generate(self, requests: Any) -> Any:
                await asyncio.sleep(60)

        asking = asyncio.ensure_future(Turns(Waits(raising(ValueError()))).ask(REQUEST))
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait((asking,))
        return asking.cancelled()

    assert asyncio.run(ends())
