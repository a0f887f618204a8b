"""MILES' asynchronous buffer: what is let in, what is too old, and in which order groups are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.filters.finding import Finding
from pipeline.domain.grouping import version_range
from pipeline.domain.vocabulary import Reason
from tests.domain.given import LARGE, Feed, accepted, rules, started

from ..family import Case, Departure, Excluded, Family, NotCompared
from .groups import STATUSES, decide, finite, member

THEIRS = NotCompared("capacity, content and metrics are the buffer's own")


@dataclass
class Buffer:
    """Groups that the product's filter let through, oldest first, and the gets that wait."""

    config: Mapping[str, Any]
    groups: list[tuple[str, int]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    def put(self, op: Mapping[str, Any]) -> dict[str, Any]:
        """The filter's verdict; a get that waits takes the group."""
        who = [
            member(slot, sample["reward"], sample["versions"], **STATUSES.get(sample["status"], {}))
            for slot, sample in enumerate(op["samples"])
        ]
        found = _verdict(who, self.config["filter"])
        if found.reason is Reason.ABORTED:
            return {"outcome": "aborted", "given_to_unused_handler": [op["group_id"]]}
        if found.reason is not None:
            return {"outcome": "filtered"}
        full = len(self.groups) >= int(self.config["capacity_factor"] * self.config["rollout_batch_size"])
        self.groups.append((op["group_id"], version_range(who)[0]))
        result: dict[str, Any] = {"outcome": THEIRS if full else "stored"}
        if self.waiting:
            taken, old = self._take(self.waiting[0])
            if taken is not None:
                self.waiting.pop(0)
                result["waiting_gets_received"] = [taken]
            result |= {"given_to_unused_handler": old} if old else {}
        return result

    def get(self, op: Mapping[str, Any]) -> dict[str, Any]:
        """What the batcher takes for the next batch of one group, and what it finds too old."""
        taken, old = self._take(op["current_version"])
        if taken is None:
            self.waiting.append(op["current_version"])
        result = {"waiting": True} if taken is None else {"group_id": taken}
        return result | ({"given_to_unused_handler": old} if old else {})

    def _take(self, version: int) -> tuple[str | None, list[str]]:
        limit = self.config["max_weight_staleness"]
        one = replace(rules(quotas={"maths": 1}), prefetch=0, max_staleness=LARGE if limit is None else limit)
        batcher, old = Feed(Batcher(one)), list[str]()
        batcher(started(version=version or 0))
        while self.groups:
            name, oldest = self.groups.pop(0)
            for answer in batcher(accepted("0@0", version=oldest)):
                if isinstance(answer, e.BatchFormed):
                    return name, old
                old.append(name)
        return None, old


def _verdict(who: list[e.Member], filter: str | None) -> Finding:
    args = {"tol": 1e-8, "metric": "reward", "max_reward": 1.0}
    return decide(who, "zero_std", args) if filter else decide(who, "no_filter", {})


def answer(case: Case) -> Mapping[str, Any]:
    """Op by op."""
    buffer = Buffer(case["input"]["config"])
    each = {"put": buffer.put, "get": buffer.get, "metrics": lambda op: {"metrics": THEIRS}}
    rest = {"stored": THEIRS, "waiting_puts_stored": THEIRS, "error": THEIRS}
    return {"results": [rest | each[op["op"]](op) for op in case["input"]["ops"]]}


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
    refused = _unversioned(case)
    ops = case["input"]["ops"]
    each = zip(ops, case["expected"]["results"], strict=True)
    return {
        "results": [_refused(op, result, op.get("group_id", result.get("group_id")) in refused) for op, result in each]
    }


def _refused(op: Mapping[str, Any], result: Mapping[str, Any], refused: bool) -> Mapping[str, Any]:
    if not refused:
        return result
    return {"outcome": "filtered"} if op["op"] == "put" else {"waiting": True}


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
