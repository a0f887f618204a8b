"""An environment of your own: guess a number in a few turns. Named in examples/guess.yaml.

Characters are the tokens here (their code points); an environment for a real model writes with the model's tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.sdk import EpisodeRequest, Observation, Turn


class Guess:
    """An Environment. Options: `highest` number that may be meant; `episodes` at once."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._highest = int(options.get("highest", 100))
        self.concurrency = int(options.get("episodes", 64))

    async def start(self, request: EpisodeRequest) -> Round:
        """The number is decided by the seed, which all members of a group share."""
        return Round(request.seed % self._highest + 1)


class Round:
    """An Episode: one number to guess."""

    opening = Observation()

    def __init__(self, number: int) -> None:
        self._number = number

    async def step(self, turn: Turn) -> Observation:
        """Say whether it is higher or lower; a reward of 1, and the end, when it was hit."""
        try:
            guess = int(turn.text)
        except ValueError:
            return said("a number, please\n", reward=-0.1)
        if guess == self._number:
            return said("right\n", reward=1.0, done=True)
        return said("higher\n" if guess < self._number else "lower\n")

    async def close(self) -> None:
        """Nothing is held. A sandbox would be given back here."""


def said(text: str, reward: float = 0.0, done: bool = False) -> Observation:
    """Words of the environment."""
    return Observation([ord(character) for character in text], text, reward, done)
