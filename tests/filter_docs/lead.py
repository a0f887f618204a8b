"""The same for policies of the lead: how many groups are open, formed, too old, or too long."""

from __future__ import annotations

from typing import Any

from pipeline.config import DecisionConfig
from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.scheduling import Scheduler
from pipeline.prompts.feed import Feed as Prompts
from pipeline.sdk import Task
from tests.domain.given import (
    Feed,
    Source,
    accepted,
    assembling,
    only,
    opened,
    opened_in,
    rules,
    started,
)

from .page import Row


def yes(holds: object) -> str:
    return "yes" if holds else "no"


def scheduling(prompts: Any = None, **changes: Any) -> Feed:
    return Feed(Scheduler(rules(partitions=1, **changes), prompts or Source(1000), None))


def asked_for(row: Row) -> int:
    """Responses that are asked for at first."""
    feed = assembling(rules(), opened("0@0", row["group_size"], row["redundancy"]))
    return len(feed.state.open[0].slots)


def opened_at_start(row: Row) -> int:
    """Groups that are opened at the start of a run; all payloads as large as they may be."""
    given = {"oversample_max": 1.0, "async_ratio": 1.0} | {
        name: row[name] for name in ("group_size", "redundancy", "max_open_groups", "payload_budget") if name in row
    }
    feed = scheduling(quotas={"maths": row["ready"]}, max_payload_bytes=row.get("max", 1), **given)
    return len(opened_in(feed(started())))


def lead(row: Row) -> int:
    """Groups that may be accepted and untrained at once."""
    r = rules(quotas={"maths": row["ready"]}, async_ratio=row["async_ratio"])
    return r.lead(r.domain("maths"))


def formed_beside(row: Row) -> str:
    """Whether a batch is formed while so many are untrained."""
    feed = Feed(Batcher(rules(quotas={"maths": 1}, prefetch=row["prefetch"], steps=100, max_staleness=100)))
    feed(started())
    many = len(only(feed(*[accepted(f"{n}@0") for n in range(row["untrained"] + 1)]), e.BatchFormed))
    return yes(many > row["untrained"])


def stale(row: Row) -> str:
    """Whether a group whose oldest version is that far behind expires."""
    feed = Feed(Batcher(rules(quotas={"maths": 1}, max_staleness=row["max_staleness"])))
    feed(started(version=row["behind"]))
    return yes(only(feed(accepted("0@0", version=0)), e.GroupExpired))


def quotas(row: Row) -> list[int]:
    """Groups of each domain in a batch."""
    plugin = {"factory": "a:b"}
    domains = {f"d{n}": {"proportion": float(p)} for n, p in enumerate(row["proportions"])}
    config = DecisionConfig.model_validate({
        "run": "r", "steps": 1, "prompts": plugin, "engine": plugin, "learner": plugin, "domains": domains,
        "batch_size": row["batch_size"],
    })  # fmt: skip
    return list(config.quotas().values())


class OneTask:
    """A source of one prompt of so many tokens."""

    def __init__(self, tokens: int) -> None:
        self._task = Task("t", "", (1,) * tokens, (), {})

    def size(self, domain: str) -> int:
        return 1

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        return self._task


def too_many(row: Row) -> str:
    """Whether a prompt of so many tokens is too long."""
    limits = rules(max_prompt_tokens=row["max_prompt_tokens"])
    return yes(Prompts(OneTask(row["tokens"]), limits).at("maths", 0, 0).problem)


def too_long(row: Row) -> str:
    """What a prompt that is too long leads to, where the source has others."""
    outputs = scheduling(Source(9, lambda ordinal: ordinal == 0), too_long=row["too_long"])(started())
    ends = [closing.outcome for closing in only(outputs, e.RunClosing)]
    return f"the run ends as {ends[0]}" if ends else "skipped" if only(outputs, e.PromptSkipped) else "issued"
