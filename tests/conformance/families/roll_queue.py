"""ROLL's episode queues, as far as they decide.

Which episodes are open, who plays them, and what was taken is theirs, as recorded. A queue is a partition, an episode a
group of it, and the step at which it was opened the policy version of its trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.rules import FilterRule, GuardRule
from pipeline.domain.vocabulary import DiscardReason, Failure, Grading, Purpose
from tests.domain.given import EVAL, MEMBERS, Feed, opened, rules, scored

from ..family import Case, NotCompared
from .taking import filtering, taken, too_old

EPISODES = NotCompared("kind queue: which episodes are open and who plays them is the queue's own")
PROTOCOL = NotCompared("kind queue: an assertion about the step of a worker")
EVALUATED = NotCompared("kind queue: an evaluation group is taken for no batch")

RATIO = GuardRule("roll_ratio", {"max_ratio": 0.5})
FLAGGED = FilterRule("drop_flag", {})
SPREAD = FilterRule("std_filter", {"std_threshold": 0.01, "ddof": 1, "metric": "reward"})
FILTERS: dict[str, tuple[tuple[FilterRule, ...], GuardRule | None, tuple[str, ...]]] = {
    "default": ((FilterRule("no_filter", {}),), None, ()),
    "drop_flag_guard": ((FLAGGED,), RATIO, ("drop_flag",)),
    "reward_std_train_only": ((FLAGGED, SPREAD), None, ("env_timeout", "env_failed")),
}
"""Their filters as a chain, its guard, and the flags that they look at."""
BROKEN: Mapping[str, Any] = {
    "grading": Grading.FAILED, "failure": Failure.ENV_FAILED, "discard": DiscardReason.FAILED,
}  # fmt: skip
"""The trajectory of a worker that left without one."""


class Queues:
    """The product's assemblers, one for each queue, and its filter. `open` has the step at which a group was opened,
    `waiting` what was accepted and not taken, `late` the trajectories that came after a group was whole."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        plain = rules()
        counting = replace(plain.assembly, count="any")
        one = replace(plain, partitions=config["num_groups"], filter_partitions=1, assembly=counting)
        filters, guard, self.flags = FILTERS[config["filter"]]
        self.config, self.ratio, self.evaluates = config, config["async_generation_ratio"], config["mode"] == "val"
        self.assemblers = [Feed(Assembler(one, MEMBERS), queue) for queue in range(config["num_groups"])]
        self.filter = filtering(filters, guard)
        self.step, self.rejections = 0, 0
        self.open: dict[str, int] = {}
        self.waiting: dict[str, e.GroupAccepted] = {}
        self.late: dict[str, list[str]] = {}

    def advance_step(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """What the batcher finds too old now is let go of, whole or not; then the recorded episodes are opened."""
        self.step, evicted = op["step"], dict[str, list[int]]()
        for queue, assembler in enumerate(self.assemblers):
            old = too_old({name: at for name, at in self.open.items() if _queue(name) == queue}, self.step, self.ratio)
            for name in old:
                assembler(e.GroupCancelled(name, 0))
                self._forget(name)
            evicted[str(queue)] = [_episode(name) for name in old]
            self._begin(queue, told["open_episodes"][str(queue)])
        return {"evicted": evicted}

    def assign(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """Theirs; an episode that is opened for it is open."""
        self._begin(op["group_id"], [told["episode_id"]] if "episode_id" in told else [])
        return {"episode_id": EPISODES, "would_block": EPISODES}

    def put(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """What the assembler makes of a trajectory, and of a whole group the filter."""
        if told.get("error") == "AssertionError":
            return {"error": PROTOCOL}
        name, assembler = f"{op['episode_id']}@{op['group_id']}", self.assemblers[op["group_id"]]
        holds = assembler.state.open.get(op["episode_id"])
        more: dict[str, Any] = {flag: flag in op.get("flags", ()) for flag in self.flags}
        more |= {"payload_key": op["rollout_id"]} | dict.fromkeys(
            ["oldest_version", "newest_version"], self.open.get(name, 0)
        )
        reward = None if op.get("exit") else op["reward"]
        more |= BROKEN if op.get("exit") else {}
        answers = assembler(scored(f"{name}/{len(holds.members) if holds else 0}.1", reward, **more))
        told_of = [result for answer in answers if (result := self._result(name, answer))]
        result = told_of[0] if told_of else {"outcome": "buffered", "count": len(holds.members) if holds else 0}
        if guard := self.filter.state.guards.get("maths"):
            result["guard"] = {"total": guard.total, "filtered": guard.filtered}
        self._begin(op["group_id"], told.get("open_episodes", []))
        return {"new_episode_id": EPISODES} | result

    def _result(self, name: str, answer: e.Event) -> dict[str, Any]:
        match answer:
            case e.ResponseDiscarded() if name in self.waiting:
                self.late[name].append(str(answer.payload_key))
                return {"outcome": "surplus", "count": EPISODES}
            case e.ResponseDiscarded():
                return {"outcome": "ignored"}
            case e.GroupAssembled():
                (verdict,) = self.filter(answer)
                return self._verdict(verdict, answer.group_size)
        return {}

    def _verdict(self, verdict: e.Event, size: int) -> dict[str, Any]:
        if isinstance(verdict, e.GroupRejected):
            self.rejections += 1
            self._forget(verdict.group_id)
            return {"outcome": "group_rejected"}
        if isinstance(verdict, e.GroupAccepted):
            self.waiting[verdict.group_id], self.late[verdict.group_id] = verdict, []
        return {"outcome": "group_complete", "count": size}

    def take(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """A batch of one group from a queue's. What is gone afterwards is what was recorded."""
        if self.evaluates:
            return dict.fromkeys(["episode_id", "create_step", "rollout_ids", "would_block"], EVALUATED)
        of_queue = [group for name, group in self.waiting.items() if _queue(name) == op["group_id"]]
        found = taken(of_queue, 1, self.step, self.ratio).groups
        result: dict[str, Any] = {} if found else {"would_block": True}
        for group in found:
            ids = [*_trajectories(group), *self.late[group.group_id]]
            result |= {"episode_id": _episode(group.group_id), "create_step": group.oldest_version, "rollout_ids": ids}
        if "episode_id" in told:
            self._forget(f"{told['episode_id']}@{op['group_id']}")
        return result

    def get_batch(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """A batch from all queues; its size counts trajectories."""
        groups = op["batch_size"] // self.config["group_size"]
        found = taken([*self.waiting.values()], groups, op["step"], self.ratio)
        ids = sorted(key for group in found.groups for key in _trajectories(group))
        return {"rollout_ids_unordered": ids} if found.groups else {"would_block": True}

    def metrics(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """Groups rejected since the last time."""
        count, self.rejections = self.rejections, 0
        return {"scheduler/group_filter_count": count}

    def _begin(self, queue: int, episodes: Sequence[int]) -> None:
        asked = (self.config["group_size"], self.config["group_size_redundancy"])
        more: dict[str, Any] = {"purpose": Purpose.EVAL, "eval": EVAL} if self.evaluates else {}
        for episode in episodes:
            if episode > self.assemblers[queue].state.highest:
                self.assemblers[queue](opened(f"{episode}@{queue}", *asked, **more))
                self.open[f"{episode}@{queue}"] = self.step

    def _forget(self, name: str) -> None:
        for known in (self.open, self.waiting, self.late):
            known.pop(name, None)


def queue(case: Case) -> Mapping[str, Any]:
    """Op by op."""
    queues = Queues(case["input"]["config"])
    each: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
        "advance_step": queues.advance_step, "assign": queues.assign, "put": queues.put, "take": queues.take,
        "get_batch": queues.get_batch, "metrics": queues.metrics,
    }  # fmt: skip
    return {"results": [{"open_episodes": EPISODES} | each[op["op"]](op, told) for op, told in each_op(case)]}


def _queue(name: str) -> int:
    return int(name.partition("@")[2])


def _episode(name: str) -> int:
    return int(name.partition("@")[0])


def _trajectories(group: e.BatchGroup) -> list[str]:
    return [str(m.payload_key) for m in MEMBERS.decode(group.members)]


def each_op(case: Case) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return zip(case["input"]["ops"], case["expected"]["results"], strict=True)
