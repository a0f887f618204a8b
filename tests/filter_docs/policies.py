"""What the product's own functions make of the examples of policies. Times of a row are in seconds."""

from __future__ import annotations

from typing import Any

from pipeline.config import DecisionConfig
from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.issuing import Issuer
from pipeline.domain.lead import expected_payload, open_target, updated_acceptance
from pipeline.domain.rules import AssemblyRules, StarvationRules
from pipeline.domain.run_state import Run, Share
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.selection.stops import empty_stop
from pipeline.domain.starvation import cause_of
from pipeline.domain.vocabulary import Reason, StarvationCause, StarvationPolicy
from pipeline.engines.starts import start_seed
from pipeline.prompts.feed import Feed as Prompts
from pipeline.sdk import Task
from tests.domain.given import (
    MEMBERS,
    Feed,
    Source,
    accepted,
    assembling,
    expired,
    failed,
    only,
    opened,
    opened_in,
    rejected,
    rules,
    scored,
    started,
    starved,
    tick,
)

from .page import Row

HOUR = 3600
EVER = 1000 * HOUR


def yes(holds: object) -> str:
    return "yes" if holds else "no"


def scheduling(prompts: Any = None, **changes: Any) -> Feed:
    return Feed(Scheduler(rules(partitions=1, **changes), prompts or Source(1000), None))


def replacement(row: Row) -> str:
    """Which prompt, and which start of an episode, answers a rejected or an expired group."""
    by = {name: row[name] for name in ("replacement", "expired_replacement") if name in row}
    feed = scheduling(**by)
    first = only(feed(started()), e.PromptIssued)[0]
    gid = first.group_id
    after = feed(rejected(gid)) if "replacement" in row else feed(accepted(gid), expired(gid))
    answer = next(issued for issued in only(after, e.PromptIssued) if issued.replaces == gid)
    if answer.prompt != first.prompt:
        return "next prompt"
    r = feed.stage.rules
    return f"same prompt, {'same' if start_seed(r, answer) == start_seed(r, first) else 'another'} start"


def replaced(row: Row) -> str:
    """Whether the so-manieth group of a lineage is replaced when it is rejected."""
    feed = scheduling(max_attempts=row["max_attempts"])
    gid = opened_in(feed(started()))[0]
    for _ in range(row["attempt"]):
        gid = next((i.group_id for i in only(feed(rejected(gid)), e.PromptIssued) if i.replaces == gid), "")
    return yes(gid)


def left_out(row: Row) -> str:
    """Whether the next pass leaves out the only prompt of a source after a group with these rewards."""
    issuer = Issuer(rules(exclude_above_pass_rate=row["exclude_above_pass_rate"]), Source(1))
    state, first = Run({"maths": Share()}, []), issuer.at(e.PromptRef("", "maths", 0, 0))
    issuer.note_pass_rate(state, first.ref, e.Scores(*[sum(row["rewards"]) / len(row["rewards"])] * 3, 1.0, None, None))
    return yes(any(isinstance(o.event, e.PromptSkipped) for o in issuer.draw(state, issuer.rules.domain("maths"), 0)))


def starves(cause: StarvationCause) -> Any:
    """Whether a domain starves for that cause."""

    def asked(row: Row) -> str:
        share = Share(rejected_in_a_row=row.get("rejected", 0), idle_ms=round(row.get("idle", 0) * 1000))
        share.recent = [n < row.get("accepted", 0) for n in range(row.get("verdicts", 0))]
        asks = (row.get("rejections_in_a_row", 0), row.get("min_acceptance", 0.0), row.get("window", 0))
        bounds = StarvationRules(StarvationPolicy.RAISE, *asks, round(row.get("no_progress", 0) * 1000))
        return yes(cause_of(share, bounds) is cause)

    return asked


def starved_by(row: Row) -> str:
    """What follows a StarvationRaised: of the scheduler, and of a batcher with half a batch."""
    raised = starved(policy=StarvationPolicy(row["policy"]))
    feed, batcher = scheduling(), Feed(Batcher(rules()))
    feed(started())
    batcher(started(), accepted("0@0"))
    closing, formed = only(feed(raised), e.RunClosing), only(batcher(raised), e.BatchFormed)
    told = [f"the run ends as {closing[0].outcome}"] if closing else []
    return ", ".join(told + ["a short batch"] * bool(formed)) or "the run goes on"


def _assembly(**row: Any) -> Any:
    lease, deadline = round(row.get("lease", HOUR) * 1000), round(row.get("deadline", EVER) * 1000)
    return rules(assembly=AssemblyRules(row.get("count", "valid"), row.get("max_rounds", 5), lease, deadline))


def counted(row: Row) -> list[float | None]:
    """The rewards of the members that a group of two ends with; none: a failed one."""
    feed = assembling(_assembly(count=row["count"]), opened("0@0", 2, 1))
    outputs = [
        output
        for slot, reward in enumerate(row["arrivals"])
        for output in feed(failed(f"0@0/{slot}.1") if reward is None else scored(f"0@0/{slot}.1", float(reward)))
    ]
    (whole,) = only(outputs, e.GroupAssembled)
    return [m.reward for m in MEMBERS.decode(whole.members)]


def asked_again(row: Row) -> str:
    """Whether a slot is asked again after its response failed in this round."""
    feed = assembling(_assembly(**row), opened("0@0", 1))
    outputs = [feed(failed(f"0@0/0.{round}")) for round in range(1, row["round"] + 1)][-1]
    return yes(only(outputs, e.ResponsesRequested))


def waited(row: Row) -> str:
    """Whether, after that time, a slot is asked once more (lease), or the group is over (deadline)."""
    feed = assembling(_assembly(**row), opened("0@0", 2))
    outputs = feed(tick(round(row["waited"] * 1000)))
    over = [r for r in only(outputs, e.GroupRejected) if r.reason is Reason.DEADLINE]
    return yes(over if "deadline" in row else only(outputs, e.ResponsesRequested))


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


POLICIES: dict[str, Any] = {
    "replacement": ("scheduler", replacement),
    "max_attempts": ("scheduler", replaced),
    "exclude_above_pass_rate": ("scheduler", left_out),
    "starvation.rejections_in_a_row": ("scheduler", starves(StarvationCause.REJECTIONS_IN_A_ROW)),
    "starvation.min_acceptance": ("scheduler", starves(StarvationCause.LOW_ACCEPTANCE)),
    "starvation.no_progress": ("scheduler", starves(StarvationCause.NO_PROGRESS)),
    "starvation.policy": ("scheduler", starved_by),
    "assembly.count": ("assembler", counted),
    "assembly.max_rounds": ("assembler", asked_again),
    "assembly.lease": ("assembler", waited),
    "assembly.deadline": ("assembler", waited),
    "redundancy": ("assembler", asked_for),
    "measured acceptance": ("scheduler", lambda row: updated_acceptance(row["acceptance"], row["accepted"])),
    "oversample_max": ("scheduler", lambda row: open_target(row["missing"], row["acceptance"], row["oversample_max"])),
    "max_open_groups": ("scheduler", opened_at_start),
    "payload.max": ("scheduler", lambda row: expected_payload(row["largest"], row["max"])),
    "payload.budget": ("scheduler", lambda row: opened_at_start({**row, "payload_budget": row["budget"]})),
    "async_ratio": ("scheduler", lead),
    "prefetch": ("batcher", formed_beside),
    "max_staleness": ("batcher", stale),
    "quotas": ("batcher", quotas),
    "empty_stop_steps": ("batcher", lambda row: yes(empty_stop(row["empty"], row["empty_stop_steps"]))),
    "max_prompt_tokens": ("scheduler", too_many),
    "too_long": ("scheduler", too_long),
}
"""By policy: the stage that it is in, and what the product makes of an example."""
UNTESTED = {"publication": "generator", "evaluation.filter": "monitor"}
"""Policies without a rule of their own to work out: the stage."""
