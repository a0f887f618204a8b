"""Calls of the engine: whatever it does, each slot comes to a sample or to a failure that says why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.domain.ids import response_id
from pipeline.domain.lead import seed_of
from pipeline.domain.rules import Rules
from pipeline.domain.told import told_error
from pipeline.domain.vocabulary import Failure, Purpose
from pipeline.engines.asks import Question, Slot
from pipeline.engines.door import Refused
from pipeline.engines.making import Failed, Sampled
from pipeline.engines.starts import start_seed
from pipeline.engines.writing import Scribe
from pipeline.prompts.task import BadTask
from pipeline.sdk import Engine, Sample, SampleRequest
from pipeline.user_code import contained, is_told_to_end


def request_seed(group_seed: int, slot: int, round: int) -> int:
    """The seed of one response: the run's mix of seed and number, once for the slot and once for the round."""
    return seed_of(seed_of(group_seed, slot), round)


@dataclass(slots=True, eq=False)
class _Call:
    """A call under way, begun under policy `version` after `loads` loads. `cancelled`: by us, so that it leaves no
    trace."""

    slots: list[Slot]
    questions: list[Question]
    version: int
    loads: int
    cancelled: bool = False
    task: asyncio.Task[None] | None = None


class Calls:
    """The calls that are under way, `concurrency` at most. What they come to goes to the scribe."""

    def __init__(self, rules: Rules, engine: Engine, scribe: Scribe, concurrency: int) -> None:
        self._rules, self._engine, self._scribe, self._concurrency = rules, engine, scribe, concurrency
        self._calls: set[_Call] = set()
        self._loads = 0

    def note_load(self) -> None:
        """A policy is about to be loaded; what is under way then may be of several."""
        self._loads += 1

    def start(self, tasks: asyncio.TaskGroup, ended: Callable[[], None]) -> None:
        """Make calls as tasks of this group; `ended` is called after each."""
        self._tasks, self._ended = tasks, ended

    @property
    def any(self) -> bool:
        """Whether any are under way."""
        return bool(self._calls)

    @property
    def any_eval(self) -> bool:
        """Whether an evaluation sample is under way."""
        return any(slot.ask.event.purpose is Purpose.EVAL for call in self._calls for slot in call.slots)

    @property
    def full(self) -> bool:
        """Whether no more may begin."""
        return len(self._calls) >= self._concurrency

    def begin(self, slots: Sequence[Slot], version: int) -> None:
        """Sample these under the loaded policy. A task that can't be read fails its slots."""
        call = _Call([], [], version, self._loads)
        for slot in slots:
            try:
                call.questions.append(slot.ask.question())
                call.slots.append(slot)
            except (BadTask, Refused) as error:
                self._scribe.add([Sampled(slot, None, Failed(Failure.ENV_FAILED, str(error)), version, 0)])
        if call.slots:
            self._calls.add(call)
            call.task = self._tasks.create_task(self._sample(call))
            call.task.add_done_callback(lambda _: self._end(call))

    def cancel_unwanted(self) -> None:
        """End the calls of which nobody waits for any answer."""
        for call in self._calls:
            if all(slot.ask.closed for slot in call.slots):
                call.cancelled = True
                if call.task:
                    call.task.cancel()

    def _end(self, call: _Call) -> None:
        self._calls.discard(call)
        self._ended()

    async def _sample(self, call: _Call) -> None:
        started = time.perf_counter()
        results = [self._of_known_policy(call, result) for result in await self._results(call)]
        took_ms, version = round((time.perf_counter() - started) * 1000), call.version
        found = zip(call.slots, call.questions, results, strict=True)
        self._scribe.add([Sampled(slot, question, result, version, took_ms) for slot, question, result in found])

    def _of_known_policy(self, call: _Call, result: Sample | Failed) -> Sample | Failed:
        """A response during which a policy was loaded must say what is of which."""
        unknown = isinstance(result, Sample) and result.version_spans is None and result.failed is None
        if call.loads == self._loads or not unknown:
            return result
        detail = "a policy was loaded while it was sampled, and it has no version_spans; expected them under refresh"
        return Failed(Failure.ENV_FAILED, detail)

    async def _results(self, call: _Call) -> Sequence[Sample | Failed]:
        """One for each slot, whatever the engine does."""
        wanted = len(call.slots)
        try:
            requests = list(map(self._request, call.slots, call.questions))
            answer = await contained(lambda: self._engine.generate(requests))
            len(answer)  # only what has a length ends
            samples = list(answer)
            returned = len(samples)
        except asyncio.CancelledError:
            if call.cancelled or is_told_to_end():
                raise
            return [Failed(Failure.ABORTED, "the engine cancelled the call")] * wanted
        except Exception as error:
            return [Failed(Failure.ENV_FAILED, f"the engine raised {told_error(error)}")] * wanted
        if returned == wanted:
            return samples
        detail = f"the engine returned {returned} samples for {wanted} requests; expected one for each, in order"
        return [Failed(Failure.ENV_FAILED, detail, detail), *[Failed(Failure.ENV_FAILED, detail)] * (wanted - 1)]

    def _request(self, slot: Slot, question: Question) -> SampleRequest:
        event = slot.ask.event
        return SampleRequest(
            response_id(event.group_id, slot.slot, slot.round),
            question.text,
            question.token_ids,
            request_seed(event.seed, slot.slot, slot.round),
            event.purpose is Purpose.EVAL,
            question.metadata,
            start_seed(self._rules, event),
        )
