"""How many responses are asked for: at once, again, and by a whole configuration."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pipeline.config.roll import AgenticBatch
from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.vocabulary import DiscardReason, Purpose
from pipeline.engines.asks import Backlog
from pipeline.log.work import Job
from tests.domain.given import MEMBERS, Feed, opened, rules, scored

from ..family import Case, Departure, Family
from . import loops, roll_buffer

DECIDED = ("roll_expand_requests", "roll_response_retry", "roll_agentic_geometry")
NAMES = {
    "train_num_env_groups": "env_groups",
    "train_group_size": "group_size",
    "train_group_size_redundancy": "redundancy",
    "train_max_traj_per_env": "max_traj_per_env",
    "train_max_env_num_per_worker": "envs_per_worker",
    "val_num_env_groups": "val_env_groups",
    "val_group_size": "val_group_size",
    "rollout_batch_size": "batch_size",
    "val_batch_size": "val_batch_size",
    "async_generation_ratio": "async_ratio",
}


class _Record:
    """Stands for the record that asks; it may be begun."""

    may_start = True


def expand_requests(case: Case) -> Mapping[str, Any]:
    """Calls of an engine that takes one request a call (expanded), or a whole group."""
    asked = case["input"]
    size = asked["num_return_sequences"]
    group = opened("0@0", size)
    issued = e.PromptIssued(**{name: getattr(group, name) for name in e.PromptIssued.__dataclass_fields__})
    backlog, calls = Backlog(), list[int]()
    backlog.add(cast(Job, _Record()), issued)
    while slots := backlog.take(backlog.trains, 1 if asked["is_num_return_sequences_expand"] else size):
        calls.append(len(slots))
    return {"requests": len(calls), "num_return_sequences_each": calls}


def response_retry(case: Case) -> Mapping[str, Any]:
    """The assembler, told of each response in the order in which it was asked for it. A verdict is the response
    filter's, which the scorer asks of training responses alone."""
    asked = case["input"]
    size, purpose = asked["num_return_sequences"], Purpose.EVAL if asked["is_val"] else Purpose.TRAIN
    more = {"purpose": purpose, "eval": e.EvalRef(0, 0, "", "") if asked["is_val"] else None}
    assembler = Feed(Assembler(replace(rules(), partitions=1, filter_partitions=1), MEMBERS))
    assembler(opened("0@0", size, **more))
    waiting = deque((slot, 1) for slot in range(size))
    requested, accepted, complete = [size], list[int](), False
    verdicts = iter(enumerate(asked["verdicts_in_generation_order"]))
    while waiting and (drawn := next(verdicts, None)) is not None:
        (slot, round), (ordinal, passed) = waiting.popleft(), drawn
        judged = passed or purpose is Purpose.EVAL
        discard = None if judged else DiscardReason.FILTERED
        answers = assembler(scored(f"0@0/{slot}.{round}", 1.0, discard=discard))
        accepted += [ordinal] if judged else []
        for answer in answers:
            if isinstance(answer, e.ResponsesRequested):
                for asked_again in answer.slots:
                    waiting.append((asked_again.slot, asked_again.round))
                    requested += [0] * (asked_again.round - len(requested))
                    requested[asked_again.round - 1] += 1
            elif isinstance(answer, e.GroupAssembled):
                complete = True
            elif isinstance(answer, e.GroupRejected):
                waiting.clear()
    return {"requested_per_round": requested, "accepted_ordinals": accepted, "accepted": len(accepted),
            "complete": complete}  # fmt: skip


def agentic_geometry(case: Case) -> Mapping[str, Any]:
    """The product's reading of ROLL's agentic settings."""
    found = AgenticBatch(**{ours: case["input"][theirs] for theirs, ours in NAMES.items() if theirs in case["input"]})
    return {
        "final_group_size": found.responses,
        "environments": found.environments,
        "workers": found.workers,
        "max_env_num_per_worker": found.per_worker,
        "train_max_traj_per_env": found.episodes,
        "val_max_traj_per_env": found.val_episodes,
        "open_episodes_per_group_after_step_0": found.open_after(0),
        "open_episodes_per_group_after_step_1_if_none_finished": found.open_after(1),
    }


KINDS = {
    "roll_expand_requests": expand_requests,
    "roll_response_retry": response_retry,
    "roll_agentic_geometry": agentic_geometry,
    **loops.KINDS,
    **roll_buffer.KINDS,
}

FAMILIES = {
    "redundancy": Family(
        lambda case: KINDS[case["input"]["kind"]](case),
        kinds=frozenset(KINDS),
        excluded=[
            *loops.EXCLUDED,
            *roll_buffer.EXCLUDED,
        ],
        departures=[
            *loops.DEPARTURES,
            *roll_buffer.DEPARTURES,
            Departure(
                "nothing is asked for a group of none",
                lambda case: case["input"].get("num_return_sequences") == 0,
                lambda case: {"requests": 0, "num_return_sequences_each": []},
            ),
        ],
    )
}
