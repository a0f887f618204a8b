"""ROLL's agentic groups: its guard by itself, and the queues; where the product means to answer otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.domain.filters.flags import drop_flag
from pipeline.domain.filters.guard import Guard, GuardState

from ..family import Case, Departure, Excluded, Family
from .groups import finite, member
from .roll_queue import RATIO, each_op, queue


def roll_guard(case: Case) -> Mapping[str, Any]:
    """drop_flag under ROLL's ratio guard."""
    guard, state = Guard(RATIO), GuardState()
    decisions, counts = [], []
    for flags in case["input"]["groups"]:
        who = [member(slot, 0.0, drop_flag=bool(flag)) for slot, flag in enumerate(flags)]
        reason = drop_flag({})(who).reason
        kept = guard.keeps(state, reason) or reason is None
        decisions.append("keep" if kept else "reject")
        counts.append([state.total, state.filtered])
    return {"decisions": decisions, "total_filtered_after": counts}


def _is(case: Case) -> bool:
    return bool(case["input"]["kind"] == "queue")


def _decides(case: Case) -> bool:
    """Whether a verdict, a staleness or an order may be told: something arrives, or a second step comes."""
    ops = [op["op"] for op in case["input"]["ops"]]
    return "put" in ops or ops.count("advance_step") > 1


def _puts(case: Case) -> list[Mapping[str, Any]]:
    return [op for op in case["input"].get("ops", []) if op["op"] == "put"]


def _outcomes(case: Case) -> list[str]:
    return [told["outcome"] for _, told in each_op(case) if "outcome" in told]


def _counted(case: Case, groups: int) -> Mapping[str, Any]:
    """The guard, if there is one, has counted so many groups of the case, and filtered none."""
    return {"guard": {"total": groups, "filtered": 0}} if "guard" in case["input"]["config"]["filter"] else {}


def _rejected(case: Case) -> Mapping[str, Any]:
    """The only group is rejected, in a guard's total but not filtered by it, and so is in no batch."""
    end: dict[str, Mapping[str, Any]] = {
        "metrics": {"scheduler/group_filter_count": 1}, "get_batch": {"would_block": True},
    }  # fmt: skip
    rejected = {"outcome": "group_rejected", **_counted(case, 1)}
    each = [
        rejected if "error" in told or told.get("outcome") == "group_complete" else end.get(op["op"], told)
        for op, told in each_op(case)
    ]
    return {"results": each}


def _never_dropped(case: Case) -> Mapping[str, Any]:
    """Whole groups pass, unseen by a guard."""
    passes: dict[Any, Mapping[str, Any]] = {
        "group_rejected": {"outcome": "group_complete", "count": case["input"]["config"]["group_size"]},
        "metrics": {"scheduler/group_filter_count": 0},
    }
    each = [passes.get(told.get("outcome", op["op"]), told) for op, told in each_op(case)]
    return {"results": [{**told, **(_counted(case, 0) if "outcome" in told else {})} for told in each]}


def _as_accepted(case: Case) -> list[Mapping[str, Any]]:
    """The recorded results, but each take has the group that was whole first."""
    step, since, came = 0, dict[Any, int](), dict[Any, list[str]]()
    whole, results = dict[int, list[int]](), list[Mapping[str, Any]]()
    for op, told in each_op(case):
        step, queue = op.get("step", step), op.get("group_id", -1)
        of_queue = whole.setdefault(queue, [])
        listed = told.get("open_episodes", ())
        for name, episodes in listed.items() if "evicted" in told else [(queue, listed)]:
            since |= {(int(name), episode): since.get((int(name), episode), step) for episode in episodes}
        if "count" in told:
            came.setdefault((queue, op["episode_id"]), []).append(op["rollout_id"])
        if told.get("outcome") == "group_complete":
            of_queue.append(op["episode_id"])
        for name, evicted in told.get("evicted", {}).items():
            whole[int(name)] = [episode for episode in whole.get(int(name), []) if episode not in evicted]
        if op["op"] == "take" and of_queue and of_queue[0] != told.get("episode_id"):
            first = (queue, of_queue[0])
            results.append({"episode_id": first[1], "create_step": since[first], "rollout_ids": [*came[first]]})
        else:
            results.append(told)
        if op["op"] == "take" and "episode_id" in told:
            of_queue.remove(told["episode_id"])
    return results


FAMILIES = {
    "roll_agentic_group_filter": Family(
        lambda case: queue(case) if _is(case) else roll_guard(case),
        kinds=frozenset({"guard", "queue"}),
        excluded=[
            Excluded(
                "kind queue: only opens episodes or hands them out; no verdict, staleness or order is recorded",
                lambda case: _is(case) and not _decides(case),
            )
        ],
        departures=[
            Departure(
                "kind queue: a group of which a worker left is rejected as env_failed",
                lambda case: any(op.get("exit") for op in _puts(case)) and "group_rejected" not in _outcomes(case),
                _rejected,
            ),
            Departure(
                "kind queue: a reward that is not a finite number is rejected as non_finite_reward",
                lambda case: not finite([op["reward"] for op in _puts(case)]),
                _rejected,
            ),
            Departure(
                "kind queue: evaluation groups are never dropped, and no guard counts them",
                lambda case: (
                    _is(case) and case["input"]["config"]["mode"] == "val" and "group_rejected" in _outcomes(case)
                ),
                _never_dropped,
            ),
            Departure(
                "kind queue: the group that was whole first is taken first, and waits for no older episode",
                lambda case: _is(case) and _as_accepted(case) != case["expected"]["results"],
                lambda case: {"results": _as_accepted(case)},
            ),
        ],
    )
}
