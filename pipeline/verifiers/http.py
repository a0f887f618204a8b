"""What verifiers over HTTP have in common: where the service is, retries, and what its refusals mean.

Secrets come from the environment alone: the configuration names the variable, and no message shows what is in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from pydantic import Field
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_chain, wait_fixed

from pipeline.config.values import Many, Section
from pipeline.sdk import Misconfigured, Score

RETRIED: Final = {502, 503, 504}
MISCONFIGURED: Final = {401, 403, 404, 405}
"""A wrong key or a wrong address: no response could ever be judged."""
OVERFLOWS: Final = ("context_length_exceeded", "maximum context length", "context overflow")


class HttpOptions(Section):
    """`url`: of the service; without it the environment variable `url_env` has it. `key_env`: the environment variable
    with a bearer token. `timeout_s`: of one try. `retries_s`: pauses before each further try, which are made after 502,
    503, 504, or when there is no connection. `concurrency`: calls at once."""

    url: str | None = None
    url_env: str = "TAMIS_VERIFIER_URL"
    key_env: str | None = None
    timeout_s: float = Field(30.0, gt=0, le=3600)
    retries_s: Many[float] = (1.0, 2.0, 4.0)
    concurrency: int = Field(16, ge=1, le=4096)


class Unavailable(Exception):
    """The service can't answer now; a later try may do."""


class Refused(Exception):
    """The service doesn't judge this response."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.score = Score(None, outcome, detail=detail)


class Service:
    """One HTTP service. It lives in one event loop. Raises Misconfigured if its address or its key isn't given."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._url = _address(options)
        self._key = _secret(options)
        self._client: httpx.AsyncClient | None = None

    async def post(self, body: Mapping[str, Any]) -> Any:
        """The JSON that it answers with. Raises Refused, with the outcome as a Score, or Misconfigured."""
        pauses = [wait_fixed(seconds) for seconds in self._options.retries_s]
        tries = AsyncRetrying(
            stop=stop_after_attempt(len(pauses) + 1),
            wait=wait_chain(*pauses) if pauses else wait_fixed(0),
            retry=retry_if_exception_type(Unavailable),
            reraise=True,
        )
        try:
            return await tries(self._try, body)
        except Unavailable as error:
            raise Refused("unavailable", f"{error}, after {len(pauses) + 1} tries") from error

    async def close(self) -> None:
        """Let go of all connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _try(self, body: Mapping[str, Any]) -> Any:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._client = httpx.AsyncClient(headers=headers, timeout=self._options.timeout_s)
        try:
            answer = await self._client.post(self._url, json=body)
        except httpx.ConnectTimeout as error:
            raise Unavailable("no connection within the time limit") from error
        except httpx.TimeoutException as error:
            raise Refused("timeout", f"no answer within {self._options.timeout_s:g} s") from error
        except httpx.TransportError as error:
            raise Unavailable(f"{type(error).__name__}: {self._hidden(str(error))}") from error
        self._check(answer)
        try:
            return answer.json()
        except ValueError as error:
            raise Refused("bad_answer", f"answered no JSON: {self._hidden(answer.text)!r:.200}") from error

    def _check(self, answer: httpx.Response) -> None:
        status = answer.status_code
        if status < 300:
            return
        said = f"HTTP {status}: {self._hidden(answer.text)!r:.200}"
        if status in RETRIED:
            raise Unavailable(said)
        if status == 413 or any(sign in answer.text for sign in OVERFLOWS):
            raise Misconfigured(f"more than its context holds, {said}; shorten prompts or responses")
        if status in MISCONFIGURED:
            raise Misconfigured(f"{said}; correct its url, or the key that key_env names")
        raise Refused("rejected" if status < 500 else "unavailable", said)

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _address(options: HttpOptions) -> str:
    where = "url" if options.url is not None else f"the environment variable {options.url_env}"
    url = urlsplit(options.url if options.url is not None else os.environ.get(options.url_env, ""))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise Misconfigured(f"{where} is not set to an address; expected such as http://host:port/path")
    if url.password is not None or url.username is not None:
        raise Misconfigured(f"{where} holds a user or a password; name a variable with a token by key_env instead")
    return url.geturl()


def _secret(options: HttpOptions) -> str | None:
    if options.key_env is None:
        return None
    key = os.environ.get(options.key_env)
    if not key:
        raise Misconfigured(f"the environment variable {options.key_env}, which key_env names, is not set; set it")
    return key
