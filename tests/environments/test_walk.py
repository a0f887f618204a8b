"""The walk, as an environment and played through the adapter."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from pipeline.engines.door import admit
from pipeline.engines.episodes import Episodes, Limits
from pipeline.environments.walk import Walk
from pipeline.plugins import build
from pipeline.prompts.sorting import DIGIT
from pipeline.prompts.walk import MOVES, SYMBOLS
from pipeline.sdk import Environment, EpisodeRequest, Observation, Sample, SampleRequest, Turn

NORTH, EAST, SOUTH, WEST = MOVES
GOAL = {"column": 2, "row": 2}


def asked(seed: int = 1, response: str = "0@0/0.1", **rest: Any) -> EpisodeRequest:
    return EpisodeRequest(response, "22>", (4, 4, 12), seed, rest.get("evaluation", False), GOAL)


def walked(steps: list[int], seed: int = 1, ice: int = 10**9, **rest: Any) -> list[Observation]:
    """What the environment wrote, the opening first."""

    async def play() -> list[Observation]:
        episode = await Walk(0, {"ice": ice}).start(asked(seed, **rest))
        return [episode.opening, *[await episode.step(Turn((step,), "", "length")) for step in steps]]

    return asyncio.run(play())


def place(observation: Observation) -> tuple[int, int]:
    column, row = observation.token_ids
    return column - DIGIT, row - DIGIT


def home(column: int, row: int) -> list[int]:
    """The steps to the goal."""
    across = [EAST if column < 2 else WEST] * abs(column - 2)
    return across + [SOUTH if row < 2 else NORTH] * abs(row - 2)


def test_who_walks_to_the_goal_is_rewarded_once_and_done() -> None:
    for seed in range(20):
        start = place(walked([], seed)[0])
        seen = walked(home(*start), seed)
        assert place(seen[-1]) == (2, 2) and (seen[-1].reward, seen[-1].done) == (1.0, True)
        assert [o.reward for o in seen[:-1]] == [0.0] * (len(seen) - 1) and not any(o.done for o in seen[:-1])


def test_the_edge_and_what_is_no_step_stand_still() -> None:
    seen = walked([NORTH] * 5 + [WEST] * 5 + [DIGIT, 0])
    assert place(seen[-3])[0] == 0 and place(seen[-1]) == place(seen[-3])


def test_seeds_decide_start_and_ice_and_nothing_else_does() -> None:
    assert walked([EAST] * 4, 5, ice=2) == walked([EAST] * 4, 5, ice=2, response="9@1/3.2", evaluation=True)
    assert len({place(walked([], seed)[0]) for seed in range(200)}) == 24
    slips = sum(place(a) == place(b) for seed in range(300) for a, b in [walked([0], seed, ice=1)])
    assert slips == 300


def test_it_is_an_environment() -> None:
    assert build("pipeline.environments.walk:Walk", 0, {}, "environment.factory", Environment).concurrency == 512


class Home:
    """An engine that knows the way: its turns are right from wherever the environment says that it stands."""

    batch, concurrency = 64, 1

    async def load_policy(self, path: Any, version: int) -> None:
        """Nothing to load."""

    async def generate(self, requests: Any) -> list[Sample]:
        return [self._turn(request.token_ids) for request in requests]

    def _turn(self, tokens: tuple[int, ...]) -> Sample:
        step = home(tokens[-2] - DIGIT, tokens[-1] - DIGIT)[0]
        return Sample((step,), (-0.25,), SYMBOLS[step], "length")


def episodes(count: int, breaks: int, on_failure: Any = "drop_response", turns: int = 30) -> list[Sample]:
    made = Episodes(Home(), Walk(0, {"breaks": breaks}), Limits(turns, 999, 0.3, 30.0, on_failure))

    async def play() -> list[Sample]:
        await made.load_policy(None, 3)  # type: ignore[arg-type]
        requests = [SampleRequest(f"{n}@0/0.1", "22>", (4, 4, 12), n, False, GOAL, n) for n in range(count)]
        return [sample for (sample,) in await asyncio.gather(*(made.generate([r]) for r in requests))]

    return asyncio.run(play())


def test_who_knows_the_way_wins_whatever_the_ice() -> None:
    for sample in episodes(40, 0):
        found = admit(sample, 3)
        assert sample.env_reward == 1.0 and sample.finish_reason == "stop"
        mask = bytes(found.loss_mask.data)
        assert mask == bytes([0, 0]) + bytes([1, 0, 0]) * (len(mask) // 3), "a segment of one token for each turn"
        assert found.spans == ((0, found.tokens, 3),)


@pytest.mark.parametrize("on_failure", ["drop_response", "zero"])
def test_some_episodes_break_in_each_way_and_the_same_ones_each_time(on_failure: str) -> None:
    found = episodes(120, 4, on_failure)
    kinds = Counter((s.failed, s.env_failed, s.env_timeout, s.drop_flag) for s in found)
    assert sum(kinds.values()) == 120 and 10 <= 120 - kinds[None, False, False, False] <= 45
    if on_failure == "zero":
        bad = {(None, True, False, True), (None, False, True, True), (None, False, False, True)}
        assert all(not any(admit(s, 0).loss_mask.data) for s in found if s.drop_flag)
    else:
        bad = {("env_failed", False, False, False), ("timeout", False, False, False), (None, False, False, True)}
    assert set(kinds) == bad | {(None, False, False, False)}
    again = episodes(120, 4, on_failure)
    assert [(s.failed, s.detail, s.text) for s in again] == [(s.failed, s.detail, s.text) for s in found]
