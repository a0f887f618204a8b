"""The verifier that asks a language model, over the chat completions interface that most servers have."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.config.files import document
from pipeline.config.load import validated
from pipeline.config.values import Pattern
from pipeline.sdk import Score, ScoreRequest
from pipeline.verifiers.code import first
from pipeline.verifiers.http import HttpOptions, Refused, Service

TEMPLATE = (
    "Judge how well the answer agrees with the reference. Reply with a line `Score: n`, n from 0 (not at all) to 10 "
    "(fully).\n\nReference:\n{target}\n\nAnswer:\n{response}"
)


class JudgeOptions(HttpOptions):
    """Those of every HTTP verifier. `template`: the question, with {response} and {target}; `pattern`: finds the score
    in the reply, as its last group; `best`: the score that counts 1.0. `model`, `max_tokens`: for the service."""

    url_env: str = "TAMIS_JUDGE_URL"
    model: str
    template: str = TEMPLATE
    pattern: Pattern = r"(?i)score:\s*([0-9]+(?:\.[0-9]+)?)"
    best: float = Field(10.0, gt=0)
    max_tokens: int = Field(1024, ge=1)


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    content: str


class _Choice(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    message: _Message
    finish_reason: str | None = None


class _Reply(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    choices: list[_Choice] = Field(min_length=1)


class LlmJudge:
    """The score in a language model's reply, from 0.0 to 1.0. A reply that is cut off, or has no score, is no verdict.
    Options: `JudgeOptions`."""

    batch = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._options = validated(JudgeOptions, document(options, "options of LlmJudge"))
        self._pattern = re.compile(self._options.pattern)
        self.concurrency = self._options.concurrency
        self._service = Service(self._options)

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        """One score for each request, in order."""
        return await asyncio.gather(*(self._one(request) for request in requests))

    async def close(self) -> None:
        """Let go of all connections."""
        await self._service.close()

    async def _one(self, request: ScoreRequest) -> Score:
        words = {"{response}": request.text, "{target}": request.target}
        question = re.sub(r"\{(?:response|target)\}", lambda found: words[found[0]], self._options.template)
        body = {
            "model": self._options.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": self._options.max_tokens,
        }
        try:
            choice = _Reply.model_validate(await self._service.post(body)).choices[0]
        except Refused as error:
            return error.score
        except ValidationError as error:
            return Score(None, "bad_answer", detail=f"answered no chat completion: {first(error)}")
        return self._read(choice)

    def _read(self, choice: _Choice) -> Score:
        if choice.finish_reason == "length":
            return Score(None, "bad_answer", detail="its reply was cut off; raise max_tokens")
        found = self._pattern.findall(choice.message.content)
        try:
            last = found[-1]
            value = float(last[-1] if isinstance(last, tuple) else last) / self._options.best
        except (IndexError, ValueError):
            return Score(None, "bad_answer", detail=f"its reply has no score: {choice.message.content!r:.200}")
        if not 0.0 <= value <= 1.0:
            return Score(None, "bad_answer", detail=f"its score is {value * self._options.best:g}; expected 0 to best")
        return Score(value)
