"""ROLL's replay buffer, as far as it decides: which results still count, what is too old, and the order of a batch.

A prompt is a group, the step at which it was begun its policy version. Who is admitted when is theirs, as recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.rules import FilterRule
from tests.domain.given import MEMBERS, Feed, opened, rules, scored

from ..family import Case, Departure, Excluded, NotCompared
from .roll_queue import each_op
from .taking import filtering, taken, too_old

KIND = "roll_replay_buffer"
ADMISSION = NotCompared(f"kind {KIND}: admission, its counters and the step of a prompt are the buffer's own")
PROTOCOL = NotCompared(f"kind {KIND}: an error of a worker that commits what it didn't begin")
CANCELLED = {"error": "cancelled"}


class Buffer:
    """The product's assembler and filter. `begun` has the step of a prompt under way, `waiting` what was accepted."""

    def __init__(self, case: Case) -> None:
        self.limit = ceil(case["input"]["config"]["async_generation_ratio"])
        self.sizes = {op["prompt_id"]: op["items"] for op in case["input"]["ops"] if op["op"] == "commit"}
        self.assembler = Feed(Assembler(replace(rules(), partitions=1, filter_partitions=1), MEMBERS))
        self.filter = filtering((FilterRule("no_filter", {}),))
        self.step, self.batch_size, self.asked = 0, 0, False
        self.begun: dict[int, int] = {}
        self.waiting: list[e.GroupAccepted] = []

    def after(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """An op, whom it admits, and the batch, if one is asked for."""
        each: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
            "advance_step": self.advance_step, "begin": self.begin, "commit": self.commit, "abort": self.abort,
            "get_batch": self.get_batch, "gc": self.gc, "poll": lambda op, told: {},
        }  # fmt: skip
        result = {"counters": ADMISSION, "admitted_prompt": ADMISSION, "poll": ADMISSION} | each[op["op"]](op, told)
        if "admitted_prompt" in told:
            prompt = told["admitted_prompt"]
            self.assembler(opened(f"{prompt}@0", self.sizes.get(prompt, 1)))
        return result | (self._batch() if self.asked else {})

    def advance_step(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """The next step, and prompts in its batch."""
        self.step, self.batch_size = op["step"], op["batch_size"]
        return {}

    def begin(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """Whether the prompt is still wanted: whether its group is open."""
        if op["prompt_id"] not in self.assembler.state.open:
            return CANCELLED
        self.begun[op["prompt_id"]] = told.get("start_step", self.step)
        return {"start_step": ADMISSION}

    def commit(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """All responses of a prompt arrive at once: whether the assembler still takes them."""
        if told.get("error") == "RuntimeError":
            return {"error": PROTOCOL}
        prompt = op["prompt_id"]
        of_step = dict.fromkeys(["oldest_version", "newest_version"], self.begun.pop(prompt, 0))
        responses = [scored(f"{prompt}@0/{slot}.1", **of_step) for slot in range(op["items"])]
        answers = self.assembler(*responses)
        for group in [answer for answer in answers if isinstance(answer, e.GroupAssembled)]:
            self.waiting += [verdict for verdict in self.filter(group) if isinstance(verdict, e.GroupAccepted)]
        return CANCELLED if any(isinstance(answer, e.ResponseDiscarded) for answer in answers) else {}

    def abort(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """The prompt's group is not wanted any more."""
        self.begun.pop(op["prompt_id"], None)
        self.assembler(e.GroupCancelled(f"{op['prompt_id']}@0", 0))
        return {}

    def gc(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """What the batcher finds too old for the batch of the next step, of what is under way, is let go of."""
        under_way = {f"{prompt}@0": step for prompt, step in self.begun.items()}
        old = [int(name.partition("@")[0]) for name in too_old(under_way, self.step + 1, self.limit)]
        for prompt in old:
            self.abort({"prompt_id": prompt}, {})
        return {"aborted_prompts": old}

    def get_batch(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """Asks until there is one."""
        self.asked = True
        return {}

    def _batch(self) -> dict[str, Any]:
        found = taken(self.waiting, self.batch_size, self.step, self.limit)
        gone = {*found.stale, *[group.group_id for group in found.groups]}
        self.waiting = [group for group in self.waiting if group.group_id not in gone]
        self.asked = not found.groups
        batch = [[int(g.group_id.partition("@")[0]), len(MEMBERS.decode(g.members))] for g in found.groups]
        return {"batch": batch} if batch else {"batch_waiting": True}


def replay_buffer(case: Case) -> Mapping[str, Any]:
    """Op by op."""
    buffer = Buffer(case)
    return {"results": [buffer.after(op, told) for op, told in each_op(case)]}


def _is(case: Case) -> bool:
    return bool(case["input"].get("kind") == KIND)


def _decides(case: Case) -> bool:
    """Whether a verdict, a staleness or an order is recorded."""
    told = {"batch", "batch_waiting", "aborted_prompts", "error"}
    return any(
        op["op"] == "commit" or (told & set(result) and op["op"] != "advance_step") for op, result in each_op(case)
    )


def _as_accepted(case: Case) -> list[Mapping[str, Any]]:
    """The recorded results with each batch taken as soon as there are prompts for it, in the order of commits."""
    size, asked, committed, results = 0, False, list[list[int]](), list[Mapping[str, Any]]()
    for op, told in each_op(case):
        size, asked = op.get("batch_size", size), asked or op["op"] == "get_batch"
        if op["op"] == "commit" and "error" not in told:
            committed.append([op["prompt_id"], op["items"]])
        result = {key: value for key, value in told.items() if key not in ("batch", "batch_waiting")}
        if asked:
            asked = len(committed) < size
            result |= {"batch_waiting": True} if asked else {"batch": committed[:size]}
            committed = committed if asked else committed[size:]
        results.append(result)
    return results


KINDS = {KIND: replay_buffer}
EXCLUDED = (
    Excluded(
        f"kind {KIND}: admission alone; no verdict, staleness or order is recorded",
        lambda case: _is(case) and not _decides(case),
    ),
)
DEPARTURES = (
    Departure(
        "a batch is taken in the order of acceptance, and waits for no older step",
        lambda case: _is(case) and _as_accepted(case) != case["expected"]["results"],
        lambda case: {"results": _as_accepted(case)},
    ),
)
