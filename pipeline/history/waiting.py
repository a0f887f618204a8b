"""Who waits for what in a run, in sentences: the first is what to look at first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.domain.rules import Rules
from pipeline.domain.topology import StageName
from pipeline.history.rows import Phase
from pipeline.history.view import RunView
from pipeline.log.members import StageMember

CONSUMER_OF: Mapping[StageName, str] = {StageName.DISCARD_REAPER: "reaper"}
"""The consumer that serves a stage, where it has another name."""


def waits(view: RunView, rules: Rules, members: Sequence[StageMember]) -> Iterator[str]:
    """Each thing that keeps something from going on."""
    if view.drained:
        return
    yield from _unserved(rules, members)
    if view.outcome is not None:
        yield "the reapers drop the last payloads; nothing else is left to do"
    elif view.closing is not None:
        yield f"the run ends ({view.closing}): a last checkpoint, and every group that is open is cancelled"
    elif view.progress.version is None:
        yield "everybody waits for the trainer's first policy"
    else:
        yield from _in_training(view, rules)


def _unserved(rules: Rules, members: Sequence[StageMember]) -> Iterator[str]:
    served = {member.stage for member in members if member.partitions}
    missing = [CONSUMER_OF.get(stage, stage.value) for stage in StageName if stage not in served]
    for consumer in dict.fromkeys(missing):
        yield f"no {consumer} is at work: tamis consume {consumer} --run {rules.run}"


def _in_training(view: RunView, rules: Rules) -> Iterator[str]:
    progress = view.progress
    for number, one in progress.under_way.items():
        first = "every training group waits for it" if one.step == 0 else "training goes on beside it"
        yield f"evaluation {number} has {one.ended} of {one.groups} answers; {first}"
    if view.phase is Phase.EVALUATING:
        return
    batches = progress.waiting_batches
    if batches:
        yield f"{batches} formed {'batches wait' if batches > 1 else 'batch waits'} for the trainer"
        return
    lacking = [f"{counts.open} open of {name}" for name, counts in view.groups.domains.items() if counts.open]
    wanted = f"a batch of {sum(domain.quota for domain in rules.domains)}"
    if rules.selection is not None:
        wanted = f"a window of {rules.selection.window}"
    yield (
        f"the trainer waits for {wanted} groups: {progress.pooled} are accepted, {', '.join(lacking) or 'none is open'}"
    )
