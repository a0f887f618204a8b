"""What the product's own functions make of the examples of policies. Times of a row are in seconds."""

from __future__ import annotations

from typing import Any

from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.issuing import SOLVED, Issuer
from pipeline.domain.lead import expected_payload, open_target, updated_acceptance
from pipeline.domain.rules import AssemblyRules, StarvationRules
from pipeline.domain.run_state import Run, Share
from pipeline.domain.selection.stops import empty_stop
from pipeline.domain.starvation import cause_of
from pipeline.domain.vocabulary import (
    ExpiryReason,
    Reason,
    SkippedPrompt,
    StarvationCause,
    StarvationPolicy,
    WaiverReason,
)
from pipeline.engines.starts import start_seed
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

from .lead import asked_for, formed_beside, lead, opened_at_start, quotas, scheduling, stale, too_long, too_many, yes
from .page import Row

HOUR = 3600
EVER = 1000 * HOUR


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
REASONS = {
    "max_attempts": WaiverReason.ATTEMPTS_EXHAUSTED,
    "exclude_above_pass_rate": SOLVED,
    "starvation.rejections_in_a_row": StarvationCause.REJECTIONS_IN_A_ROW,
    "starvation.min_acceptance": StarvationCause.LOW_ACCEPTANCE,
    "starvation.no_progress": StarvationCause.NO_PROGRESS,
    "assembly.max_rounds": Reason.RESPONSE_RETRIES_EXHAUSTED,
    "assembly.deadline": Reason.DEADLINE,
    "max_staleness": ExpiryReason.STALE,
    "empty_stop_steps": StarvationCause.EMPTY_SELECTIONS,
    "max_prompt_tokens": SkippedPrompt.TOO_LONG,
    "too_long": SkippedPrompt.TOO_LONG,
}
"""What each gives as a reason."""
UNTESTED = {"publication": "generator", "evaluation.filter": "monitor"}
"""Policies without a rule of their own to work out: the stage."""
