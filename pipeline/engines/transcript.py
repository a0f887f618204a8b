"""The tokens of an episode as they come: what the policy sampled, and what the environment wrote between."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Any

from pipeline.domain.told import told_error
from pipeline.domain.vocabulary import Failure
from pipeline.engines.door import Admitted, Refused, admit, number, token_array
from pipeline.sdk import FinishReason, Observation, Sample, Turn
from pipeline.store.format import Array, Span


class Broken(Refused):
    """An episode that its environment broke: why, and what exactly."""


@dataclass(slots=True)
class Transcript:
    """One episode, turn by turn. `token_ids` are those of the response, without the prompt's."""

    token_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    turns: int = 0
    dropped: bool = False
    _logprobs: array[float] | None = field(default_factory=lambda: array("f"))
    _mask: bytearray = field(default_factory=bytearray)
    _spans: list[Span] = field(default_factory=list)
    _rewards: list[float] = field(default_factory=list)
    _entropies: list[tuple[float | None, int]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.texts)

    def sampled(self, sample: Any, version: int) -> Turn:
        """Take a turn of the policy of this version; returns it. Raises Refused if it can't be right."""
        admitted = admit(sample, version)
        ids = _ints(admitted.response_ids)
        self._span(admitted)
        self.token_ids += ids
        self._mask += admitted.loss_mask.data
        if admitted.logprobs is None:
            self._logprobs = None
        elif self._logprobs is not None:
            self._logprobs.frombytes(admitted.logprobs.data)
        self.texts.append(sample.text)
        self._entropies.append((admitted.entropy, admitted.tokens))
        self.turns += 1
        return Turn(tuple(ids), sample.text, sample.finish_reason)

    def wrote(self, observation: Any) -> Observation:
        """Take what the environment wrote; returns it, read. Raises Broken if it can't be right, whatever it does."""
        try:
            return self._wrote(observation)
        except (Broken, KeyboardInterrupt):
            raise
        except BaseException as error:
            detail = f"the environment's observation can't be read: {told_error(error)}"
            raise Broken(Failure.ENV_FAILED, detail) from error

    def _wrote(self, observation: Any) -> Observation:
        if not isinstance(observation, Observation):
            kind = type(observation).__name__
            raise Broken(Failure.ENV_FAILED, f"the environment gave a {kind}; expected a pipeline.sdk.Observation")
        text: Any = observation.text
        if not isinstance(text, str):
            kind = type(text).__name__
            raise Broken(Failure.ENV_FAILED, f"the environment's text is a {kind}; expected a str")
        try:
            reward = number(observation.reward, "the environment's reward")
            ids = _ints(token_array(observation.token_ids, "the environment's token_ids"))
            done, drop = bool(observation.done), bool(observation.drop)
        except Refused as refused:
            raise Broken(refused.failure, refused.detail) from None
        self.token_ids += ids
        self._mask += bytes(len(ids))
        if self._logprobs is not None:
            self._logprobs.extend([0.0] * len(ids))
        self.texts.append(text)
        self._rewards.append(reward)
        self.dropped |= drop
        return Observation(ids, text, reward, done, drop)

    def sample(self, finish: FinishReason) -> Sample:
        """The whole episode as one response. Raises Broken if its rewards have no finite sum."""
        mask = bytes(len(self._mask)) if self.dropped else bytes(self._mask)
        return Sample(
            self.token_ids, self._logprobs, self.text, finish, mask, self._whole_spans(), self._entropy(),
            env_reward=self._reward(), drop_flag=self.dropped,
        )  # fmt: skip

    def broken(self, failure: Failure, detail: str, prompt: tuple[int, ...]) -> Sample:
        """What was played of an episode that its environment broke: reward 0, nothing to train on, and flags. One
        that broke before its first token is the prompt's last token."""
        ids = self.token_ids or [*prompt[-1:]] or [0]
        late, failed = failure is Failure.TIMEOUT, failure is Failure.ENV_FAILED
        nothing, logprobs = bytes(len(ids)), array("f", bytes(4 * len(ids)))
        return Sample(
            ids, logprobs, self.text, "length", nothing, self._whole_spans(), detail=detail, env_reward=0.0,
            drop_flag=True, env_timeout=late, env_failed=failed,
        )  # fmt: skip

    def _span(self, admitted: Admitted) -> None:
        """The turn's spans after those before it; what was written in between belongs to the turn that reads it."""
        written_from = self._spans[-1][1] if self._spans else 0
        start = len(self.token_ids)
        for first, end, version in admitted.spans:
            begin = written_from if first == 0 else start + first
            if self._spans and self._spans[-1][2] == version:
                begin = self._spans.pop()[0]
            self._spans.append((begin, start + end, version))

    def _whole_spans(self) -> tuple[Span, ...] | None:
        """The spans; the last has what was written after it. None without a turn."""
        if not self._spans:
            return None
        start, _, version = self._spans[-1]
        return (*self._spans[:-1], (start, len(self.token_ids), version))

    def _reward(self) -> float:
        try:
            reward = fsum(self._rewards)
        except OverflowError:
            reward = float("inf")
        if not isfinite(reward):
            raise Broken(Failure.ENV_FAILED, "the sum of the environment's rewards is not finite")
        return reward

    def _entropy(self) -> float | None:
        """The mean over sampled tokens; None if a turn has none."""
        known = [(value * tokens, tokens) for value, tokens in self._entropies if value is not None]
        if len(known) < len(self._entropies) or not known:
            return None
        return fsum(value for value, _ in known) / sum(tokens for _, tokens in known)


def _ints(ids: Array) -> list[int]:
    return array("i" if ids.dtype == "int32" else "q", bytes(ids.data)).tolist()
