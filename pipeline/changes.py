"""A line of log for each batch and each change of the run's state, by the process that decided it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from pipeline.domain import events as e
from pipeline.domain.topology import Output, Topic

log = structlog.get_logger(__name__)
Fields = Mapping[str, Any]


def _formed(batch: e.BatchFormed) -> Fields:
    found = {"batch": batch.batch, "groups": len(batch.groups), "candidates": batch.candidates}
    return {**found, "follows": batch.follows_version, **({"short": batch.short.value} if batch.short else {})}


CHANGES: Final[Mapping[type[e.Event], tuple[str, str, Callable[[Any], Fields]]]] = {
    e.BatchFormed: ("info", "batch formed", _formed),
    e.BatchSkipped: ("warning", "step skipped", lambda b: {"batch": b.batch, "reason": b.reason.value}),
    e.EvaluationStarted: (
        "info", "evaluation started", lambda v: {"evaluation": v.eval.id, "step": v.step, "groups": v.groups},
    ),
    e.EvaluationFinished: (
        "info", "evaluation finished",
        lambda v: {
            "evaluation": v.eval.id, "step": v.step, "mean_reward": v.mean_reward, "graded": v.graded,
            "ungraded": v.ungraded, "failed": v.failed, "cut": v.cut,
        },
    ),
    e.StarvationRaised: (
        "warning", "starvation",
        lambda s: {"domain": s.domain, "cause": s.cause.value, "policy": s.policy.value, "advice": s.advice},
    ),
    e.StageFailed: ("error", "work failed", lambda f: {"stage": f.stage, "group": f.group_id, "why": f.detail}),
    e.RunClosing: ("info", "run closes", lambda c: {"outcome": c.outcome.value, "why": c.detail}),
    e.RunFinished: ("info", "run finished", lambda f: {"outcome": f.outcome.value, "steps": f.steps}),
}  # fmt: skip
"""By event: the line's level, its text, and its fields."""


def announce(outputs: Sequence[Output]) -> None:
    """Say what of these outputs, which have been committed, a person would want to know."""
    for output in outputs:
        found = CHANGES.get(type(output.event))
        if found is not None and output.topic is Topic.LEDGER:
            level, text, fields = found
            getattr(log, level)(text, **fields(output.event))
