"""examples/guess.py: an environment of a user's own, by its dotted path."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline import sdk
from pipeline.config import canonical, load, parse_canonical, resolve_budget, source_hashes
from pipeline.engines.episodes import Episodes, Limits
from pipeline.plugins import build
from pipeline.sdk import Sample, SampleRequest

ROOT = Path(__file__).parents[2]


class Bisects:
    """An engine that halves what is left, by what it reads."""

    batch, concurrency = 8, 1

    async def load_policy(self, path: Path, version: int) -> None:
        """Nothing to load."""

    async def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        return [self._turn(request.text) for request in requests]

    def _turn(self, text: str) -> Sample:
        low, high = 1, 100
        for line in text.splitlines()[1:]:
            guess = (low + high) // 2
            low, high = (guess + 1, high) if line.endswith("higher") else (low, guess - 1)
        guess = f"{(low + high) // 2} "
        return Sample([ord(c) for c in guess], [-0.1] * len(guess), guess)


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line looks for plugins where it is started."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))


def test_its_configuration_is_one_and_its_source_is_hashed(in_root: None) -> None:
    made = load(ROOT / "examples" / "guess.yaml")
    assert made.environment is not None and made.publication == "refresh"
    known = made.model_copy(update={"engine": made.environment, "learner": made.environment})
    assert set(source_hashes(known)) == {"examples.guess:Guess"}
    again = parse_canonical(canonical(resolve_budget(made, 2**36)))
    assert again.environment == made.environment


def test_halving_finds_every_number_in_seven_turns(in_root: None) -> None:
    environment: Any = build("examples.guess:Guess", 0, {}, "environment.factory", sdk.Environment)
    made = Episodes(Bisects(), environment, Limits(7, 4096, 10.0, 60.0))

    async def play() -> list[Sample]:
        await made.load_policy(Path("p"), 0)
        requests = [SampleRequest(f"{n}@0/0.1", "?\n", (63,), n, False, {}, n) for n in range(100)]
        return [sample for (sample,) in await asyncio.gather(*(made.generate([r]) for r in requests))]

    found = asyncio.run(play())
    assert [sample.env_reward for sample in found] == [1.0] * 100
    assert all(sample.text.endswith("right\n") for sample in found)
    first = found[0]
    assert isinstance(first.loss_mask, bytes) and first.loss_mask.count(b"\0\1") + 1 == len(first.text.splitlines())
