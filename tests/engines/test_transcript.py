"""Whatever is played: every token is somebody's, and of one policy."""

from __future__ import annotations

from array import array
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.door import admit
from pipeline.engines.transcript import Transcript
from pipeline.sdk import Observation, Sample

VERSIONS = st.integers(0, 3)
TURNS = st.tuples(st.integers(1, 4), VERSIONS, st.integers(0, 3), st.sampled_from((0.0, 0.5, -1.25)))
"""Tokens of a turn, its policy, tokens that the environment writes after it, and its reward."""


@given(st.integers(0, 3), st.lists(TURNS, min_size=1, max_size=6))
def test_masks_logprobs_and_spans_are_those_of_who_wrote(opening: int, turns: list[tuple[int, int, int, float]]):
    played = Transcript()
    played.wrote(Observation(range(opening)))
    expected_mask, version, own, newest = [0] * opening, 0, list[tuple[int, int]](), 0
    for said, step, written, reward in turns:
        newest = version = max(version, step)
        played.sampled(Sample([7] * said, array("f", [-0.5] * said), "x"), version)
        own += [(len(expected_mask) + i, version) for i in range(said)]
        expected_mask += [1] * said + [0] * written
        played.wrote(Observation([9] * written, reward=reward))
    sample = played.sample("stop")
    found = admit(sample, 99)
    mask = list(found.loss_mask.data)
    assert mask == expected_mask and found.tokens == len(mask)
    assert found.logprobs is not None
    assert list(memoryview(found.logprobs.data).cast("f")) == [-0.5 * m for m in mask]
    of_token = [v for start, end, v in found.spans for _ in range(start, end)]
    assert len(of_token) == len(mask) and all(of_token[place] == v for place, v in own)
    assert len(found.spans) == len(list(groupby(of_token))), "neighbours of one policy are one span"
    assert found.spans[-1][2] == newest and sample.env_reward == sum(reward for *_, reward in turns)
