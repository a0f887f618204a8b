"""An engine of episodes: plays an Environment with an Engine, turn by turn, and answers with one Sample for each.

Whatever engine and environment do, a request comes to a Sample: an episode's own, or a failure that says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from pipeline.domain.lead import seed_of
from pipeline.domain.told import told_error
from pipeline.domain.vocabulary import Failure
from pipeline.engines.door import Refused
from pipeline.engines.transcript import Broken, Transcript
from pipeline.engines.turns import Reply, Turns
from pipeline.sdk import Engine, Environment, EpisodeRequest, Sample, SampleRequest
from pipeline.user_code import contained

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """max_tokens: of an episode with its prompt; the turn that reaches it is the last. `on_failure` of the environment:
    the response failed (drop_response), or stands with reward 0, masked out and flagged (zero)."""

    max_turns: int
    max_tokens: int
    step_timeout_s: float
    episode_timeout_s: float
    on_failure: Literal["drop_response", "zero"] = "drop_response"


class Episodes:
    """An Engine. Its calls have one request each; the turns of all that are under way share the engine's batches."""

    batch = 1
    refreshes = True

    def __init__(self, engine: Engine, environment: Environment, limits: Limits) -> None:
        self._turns, self._environment, self._limits = Turns(engine), environment, limits
        self.concurrency = environment.concurrency
        self._closing: set[asyncio.Task[None]] = set()

    async def load_policy(self, path: Path, version: int) -> None:
        """Between two turns; episodes that are under way go on with it."""
        await self._turns.load(path, version)

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Sample]:
        """One Sample for each request, in order."""
        return await asyncio.gather(*map(self._sample, requests))

    async def _sample(self, request: SampleRequest) -> Sample:
        played, limits = Transcript(), self._limits
        try:
            return await self._play(request, played)
        except Refused as refused:
            detail = f"{_place(played)}{refused.detail}"
            if limits.on_failure == "zero" and isinstance(refused, Broken):
                return played.broken(refused.failure, detail, request.token_ids)
            return Sample((), (), "", failed=refused.failure.value, detail=detail)

    async def _play(self, request: SampleRequest, played: Transcript) -> Sample:
        clock = _Clock(self._limits)
        asked = EpisodeRequest(
            request.response_id, request.text, request.token_ids, request.group_seed, request.greedy, request.metadata
        )
        episode = await clock.step("start", lambda: self._environment.start(asked), self._close)
        try:
            observed = played.wrote(_opening(episode))
            while not observed.done and not self._is_over(request, played):
                reply = await clock.turn(self._turns.ask(_next(request, played)))
                turn = played.sampled(reply.sample, reply.version)
                observed = played.wrote(await clock.step("step", partial(episode.step, turn)))
            return played.sample("stop" if observed.done else "length")
        finally:
            self._close(episode)

    def _is_over(self, request: SampleRequest, played: Transcript) -> bool:
        """Whether a limit is reached."""
        tokens = len(request.token_ids) + len(played.token_ids)
        return played.turns >= self._limits.max_turns or tokens >= self._limits.max_tokens

    def _close(self, episode: Any) -> None:
        """Nobody waits for it, and nothing that it does matters any more."""
        closing = asyncio.ensure_future(_closed(episode, self._limits.step_timeout_s))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class _Clock:
    """Holds one episode to its times."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._end = asyncio.get_running_loop().time() + limits.episode_timeout_s

    async def step(self, what: str, call: Callable[[], Awaitable[T]], unwanted: Callable[[T], None] | None = None) -> T:
        """A call of the environment; `unwanted` takes what it returns too late. Raises Broken."""
        own, left = self._limits.step_timeout_s, self._left()
        try:
            return await within(contained(call), min(own, left), unwanted)
        except _Late:
            if own <= left:
                raise Broken(Failure.TIMEOUT, f"the environment's {what} took over {own:g} s") from None
            raise self._over() from None
        except Exception as error:
            detail = f"the environment's {what} raised {told_error(error)}"
            raise Broken(Failure.ENV_FAILED, detail) from error

    async def turn(self, call: Awaitable[Reply]) -> Reply:
        """A call of the engine. Raises Refused, or Broken if the episode's time is over."""
        try:
            return await within(call, self._left())
        except _Late:
            raise self._over() from None
        except _Cancelled:
            raise Refused(Failure.ABORTED, "the engine cancelled the call") from None
        except Exception as error:
            raise Refused(Failure.ENV_FAILED, f"the engine raised {told_error(error)}") from error

    def _left(self) -> float:
        return max(self._end - asyncio.get_running_loop().time(), 0.0)

    def _over(self) -> Broken:
        return Broken(Failure.TIMEOUT, f"the episode took over {self._limits.episode_timeout_s:g} s")


class _Late(Exception):
    """A call took too long."""


class _Cancelled(Exception):
    """A call was cancelled from inside."""


async def within(call: Awaitable[T], seconds: float, unwanted: Callable[[T], None] | None = None) -> T:
    """What a call returns. Raises _Late after that time, also if the call is deaf to cancellation; what it returns
    then goes to `unwanted`."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        if not task.done():
            task.add_done_callback(partial(_look_at, unwanted))
            task.cancel()
    if not task.done():
        raise _Late
    if task.cancelled():
        raise _Cancelled("it cancelled itself")
    return task.result()


def _look_at(unwanted: Callable[[T], None] | None, task: asyncio.Future[T]) -> None:
    """What a call raises after its time is nobody's business any more."""
    if not task.cancelled() and task.exception() is None and unwanted is not None:
        unwanted(task.result())


async def _closed(episode: Any, seconds: float) -> None:
    try:
        await within(contained(lambda: episode.close()), seconds)
    except Exception:  # it ended already, well or not
        return


def _opening(episode: Any) -> Any:
    try:
        return episode.opening
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Broken(Failure.ENV_FAILED, f"the episode's opening raised {told_error(error)}") from error


def _next(request: SampleRequest, played: Transcript) -> SampleRequest:
    """The next turn: all that stands there so far, with a seed of its own."""
    return SampleRequest(
        request.response_id,
        request.text + played.text,
        (*request.token_ids, *played.token_ids),
        seed_of(request.seed, played.turns),
        request.greedy,
        request.metadata,
        request.group_seed,
    )


def _place(played: Transcript) -> str:
    return f"turn {played.turns}: " if played.turns else ""
