"""The verifier of code: a service runs tests on it and says how many passed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.config.files import document
from pipeline.config.load import validated
from pipeline.sdk import Score, ScoreRequest
from pipeline.verifiers.http import HttpOptions, Refused, Service

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:\n)?```", re.DOTALL)


class CodeOptions(HttpOptions):
    """Those of every HTTP verifier. `all_or_nothing`: 1.0 if all tests passed, else 0.0; not the share that did."""

    url_env: str = "TAMIS_CODE_URL"
    all_or_nothing: bool = False


class CodeAnswer(BaseModel):
    """What the service answers."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    passed: int = Field(ge=0)
    total: int = Field(ge=1)

    @model_validator(mode="after")
    def _no_more_than_all(self) -> CodeAnswer:
        if self.passed > self.total:
            raise ValueError(f"{self.passed} of {self.total} tests passed")
        return self


class CodeTests:
    """The share of tests that pass. It posts `{id, code, tests}`: the last fenced block of the response (or all of
    it) and the target, and expects `{passed, total}`. Options: `CodeOptions`."""

    batch = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._options = validated(CodeOptions, document(options, "options of CodeTests"))
        self.concurrency = self._options.concurrency
        self._service = Service(self._options)

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        """One score for each request, in order."""
        return await asyncio.gather(*(self._one(request) for request in requests))

    async def close(self) -> None:
        """Let go of all connections."""
        await self._service.close()

    async def _one(self, request: ScoreRequest) -> Score:
        body = {"id": request.response_id, "code": code_of(request.text), "tests": request.target}
        try:
            found = CodeAnswer.model_validate(await self._service.post(body))
        except Refused as error:
            return error.score
        except ValidationError as error:
            return Score(None, "bad_answer", detail=f"answered otherwise than {{passed, total}}: {first(error)}")
        share = found.passed / found.total
        components = {"passed": float(found.passed), "total": float(found.total)}
        return Score(float(share == 1.0) if self._options.all_or_nothing else share, components=components)


def code_of(text: str) -> str:
    """The last fenced block of a text; all of it, if there is none."""
    blocks = _FENCED.findall(text)
    return blocks[-1] if blocks else text


def first(error: ValidationError) -> str:
    """The first thing that is wrong, without the value."""
    found = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, found['loc'])) or 'it'}: {found['msg']}"
