"""MILES' asynchronous buffer: what is let in, what is too old, and in which order groups are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.filters.finding import Finding
from pipeline.domain.grouping import version_range
from pipeline.domain.vocabulary import Reason
from tests.domain.given import LARGE, accepted

from ..family import Case, Departure, Excluded, Family, NotCompared
from .groups import STATUSES, decide, finite, member
from .roll_queue import each_op
from .taking import taken

STALE, ABORTED = (f"rollout/fully_async/{why}_groups_filtered" for why in ("stale", "aborted"))
THEIRS = NotCompared("capacity, and numbers other than those of verdicts, are the buffer's own")


class Buffer:
    """Groups that the product's filter let through, in that order, the gets that wait, and counts since they were last
    told. `unstored` are groups that wait for space there, as recorded; here they are accepted."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        limit = config["max_weight_staleness"]
        self.filter, self.limit = config["filter"], LARGE if limit is None else limit
        self.groups: dict[str, e.GroupAccepted] = {}
        self.unstored: list[str] = []
        self.waiting: list[int] = []
        self.counts = Counter[str]()

    def after(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """An op, and what is stored then; that is theirs while a group waits for space."""
        each = {"put": self.put, "get": self.get, "metrics": self.metrics}
        result = each[op["op"]](op, told)
        self.unstored = [name for name in self.unstored if name in self.groups]
        return {
            "waiting_puts_stored": THEIRS,
            "stored": THEIRS if self.unstored else [*self.groups],
            "error": THEIRS,
        } | result

    def put(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """The filter's verdict; a get that waits takes the group."""
        name = op["group_id"]
        who = [
            member(slot, sample["reward"], sample["versions"], **STATUSES.get(sample["status"], {}))
            for slot, sample in enumerate(op["samples"])
        ]
        found = _verdict(who, self.filter)
        if found.reason is Reason.ABORTED:
            self.counts[ABORTED] += 1
            return {"outcome": "aborted", "given_to_unused_handler": [name]}
        if found.reason is not None:
            self.counts[f"rollout/dynamic_filter/{found.metric_name}"] += 1
            return {"outcome": "filtered"}
        self.groups[name] = replace(accepted("0@0", version=version_range(who)[0]), group_id=name)
        result: dict[str, Any] = {"outcome": "stored"}
        if told["outcome"] == "waiting_for_space":
            self.unstored.append(name)
            result = {"outcome": THEIRS}
        if self.waiting:
            taken, old = self._take(self.waiting[0])
            if taken:
                self.waiting.pop(0)
                result["waiting_gets_received"] = taken
            result |= {"given_to_unused_handler": old} if old else {}
        return result

    def get(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """What the batcher takes for the next batch of one group, and what it finds too old."""
        found, old = self._take(op["current_version"])
        if not found:
            self.waiting.append(op["current_version"])
        result: dict[str, Any] = {"group_id": found[0]} if found else {"waiting": True}
        return result | ({"given_to_unused_handler": old} if old else {})

    def metrics(self, op: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
        """The counts of verdicts."""
        counts, self.counts = self.counts, Counter[str]()
        return {
            "metrics": dict.fromkeys(told["metrics"], THEIRS)
            | {STALE: counts[STALE], ABORTED: counts[ABORTED]}
            | counts
        }

    def _take(self, version: int | None) -> tuple[list[str], list[str]]:
        """What is taken, and what is too old and stood before it; what stands behind it they look at later."""
        found = taken([*self.groups.values()], 1, version or 0, self.limit)
        names, order = [group.group_id for group in found.groups], [*self.groups]
        before = order[: order.index(names[0])] if names else order
        old = [name for name in before if name in found.stale]
        for name in [*names, *old]:
            del self.groups[name]
        self.counts[STALE] += len(old)
        return names, old


def _verdict(who: list[e.Member], filter: str | None) -> Finding:
    args = {"tol": 1e-8, "metric": "reward", "max_reward": 1.0}
    return decide(who, "zero_std", args) if filter else decide(who, "no_filter", {})


def answer(case: Case) -> Mapping[str, Any]:
    """Op by op."""
    buffer = Buffer(case["input"]["config"])
    return {"results": [buffer.after(op, told) for op, told in each_op(case)]}


def _members(case: Case) -> list[Mapping[str, Any]]:
    return [sample for op in case["input"]["ops"] for sample in op.get("samples", [])]


def _bounded(case: Case) -> bool:
    return case["input"]["config"]["max_weight_staleness"] is not None


def _unversioned(case: Case) -> list[str]:
    """Groups that would be let in, though a member has no policy version."""
    puts = [(op, r) for op, r in zip(case["input"]["ops"], case["expected"]["results"], strict=True) if "samples" in op]
    return [
        op["group_id"] for op, r in puts if r["outcome"] == "stored" and not all(s["versions"] for s in op["samples"])
    ]


def _without_unversioned(case: Case) -> Mapping[str, Any]:
    """They are filtered, and so nobody gets them."""
    refused = _unversioned(case)
    count = {f"rollout/dynamic_filter/drop_{Reason.PROVENANCE}": len(refused)}
    instead: dict[str, Mapping[str, Any]] = {
        "put": {"outcome": "filtered", "stored": []},
        "get": {"waiting": True, "stored": []},
    }
    results: list[Mapping[str, Any]] = []
    for op, told in each_op(case):
        if op.get("group_id", told.get("group_id")) in refused:
            results.append(instead[op["op"]])
        else:
            results.append({**told, "metrics": {**told["metrics"], **count}} if op["op"] == "metrics" else told)
    return {"results": results}


FAMILIES = {
    "async_buffer": Family(
        answer,
        excluded=[
            Excluded(
                "a capacity below one group: the product's limits are its lead and its payload budget",
                lambda case: int(
                    case["input"]["config"]["capacity_factor"] * case["input"]["config"]["rollout_batch_size"]
                )
                < 1,
            ),
            Excluded(
                "a get that names no version: the product's batcher always knows it",
                lambda case: (
                    _bounded(case)
                    and any(op["op"] == "get" and op["current_version"] is None for op in case["input"]["ops"])
                ),
            ),
        ],
        departures=[
            Departure(
                "a group with a member without a policy version is rejected as provenance",
                lambda case: _unversioned(case) != [],
                _without_unversioned,
            ),
            Departure(
                "a missing reward is rejected as ungraded, not an error",
                lambda case: any(sample["reward"] is None for sample in _members(case)),
                lambda case: {
                    "results": [r | {"outcome": "filtered"} if r.get("outcome") == "error" else r
                                for r in case["expected"]["results"]]
                },
            ),
            Departure(
                "a reward that is not a finite number is rejected as non_finite_reward",
                lambda case: not finite([sample["reward"] for sample in _members(case)]),
                lambda case: case["expected"],
            ),
        ],
    )
}  # fmt: skip
