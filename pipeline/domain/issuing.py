"""Issuing prompts: whether there is room for one more group, which prompt is next, and the records that open it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from pipeline.domain import events as e
from pipeline.domain.ids import group_id
from pipeline.domain.lead import expected_payload, open_target, seed_of
from pipeline.domain.ports import Prompts
from pipeline.domain.rules import DomainRules, Rules
from pipeline.domain.run_state import Live, Run
from pipeline.domain.topology import InvariantBroken, Output, Topic
from pipeline.domain.vocabulary import Purpose, SkippedPrompt

SOLVED = "solved"
"""How the detail of a skipped prompt begins that is left out because it was solved."""


def pass_rate(scores: e.Scores | None) -> float | None:
    """The share of a group that was right, for rewards from 0 to 1: their mean. None: a member has no finite reward."""
    return scores.reward_mean if scores else None


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a new group descends from: the first of its line, the one it replaces, and its number in the line."""

    root: str | None = None
    replaces: str | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Drawn:
    """A prompt of the source and its task; `problem`: why it can't be issued."""

    ref: e.PromptRef
    task: bytes
    problem: str | None


class Issuer:
    """Draws prompts from a source and opens groups for them."""

    def __init__(self, rules: Rules, prompts: Prompts) -> None:
        self.rules = rules
        self.prompts = prompts

    def room(self, state: Run, domain: DomainRules) -> bool:
        """Whether one more training group of a domain may be open (docs/architecture.md, lead and payload budget)."""
        share, rules = state.shares[domain.name], self.rules
        if state.last_call >= 0 or state.open_training() >= rules.max_open_groups:
            return False
        missing = min(rules.lead(domain), self._left(state, domain)) - share.pool - share.formed
        if share.open >= open_target(missing, share.acceptance, rules.oversample_max):
            return False
        if share.pool + share.open < rules.ready(domain):
            return True
        each = expected_payload(state.largest_payload, rules.max_payload_bytes) * (rules.group_size + rules.redundancy)
        return state.held_bytes + (state.open_training() + 1) * each <= rules.payload_budget

    def _left(self, state: Run, domain: DomainRules) -> int:
        """Groups that the steps left may need, those formed included. With refill a batch once formed needs no more."""
        steps, share = self.rules.steps - state.steps_done, state.shares[domain.name]
        if self.rules.selection is None or not self.rules.selection.refill:
            return steps * self.rules.ready(domain)
        return (steps - state.untrained()) * self.rules.ready(domain) + share.formed

    def draw(self, state: Run, domain: DomainRules, at: int) -> Generator[Output, None, Drawn | None]:
        """The next prompt; None once a whole pass was drawn in one step. Solved ones are skipped, those too long if so
        configured; else the first of them is returned with its problem."""
        share, size = state.shares[domain.name], self.prompts.size(domain.name)
        while share.drawn_this_step < size:
            drawn = self.at(e.PromptRef("", domain.name, share.drawn % size, share.drawn // size))
            share.drawn += 1
            share.drawn_this_step += 1
            if (rate := share.solved.get(drawn.ref.id)) is not None:
                yield Output(Topic.LEDGER, 0, self._solved(drawn.ref, rate, at))
                continue
            if drawn.problem is None or self.rules.too_long == "error":
                return drawn
            yield Output(Topic.LEDGER, 0, e.PromptSkipped(drawn.ref, SkippedPrompt.TOO_LONG, drawn.problem, at))
        share.exhausted = True
        return None

    def note_pass_rate(self, state: Run, prompt: e.PromptRef, scores: e.Scores | None) -> None:
        """Leave a prompt that is solved out of later passes. As many are remembered as there are in a pass."""
        least, rate = self.rules.exclude_above_pass_rate, pass_rate(scores)
        if least is None or rate is None or not rate >= least:  # NaN: a sum beyond all numbers
            return
        solved = state.shares[prompt.domain].solved
        solved[prompt.id] = rate
        if len(solved) > self.prompts.size(prompt.domain):
            del solved[next(iter(solved))]

    def _solved(self, prompt: e.PromptRef, rate: float, at: int) -> e.PromptSkipped:
        detail = f"{SOLVED}: pass rate {rate:g}, exclude_above_pass_rate {self.rules.exclude_above_pass_rate:g}"
        return e.PromptSkipped(prompt, SkippedPrompt.INVALID, detail, at)

    def at(self, place: e.PromptRef) -> Drawn:
        """The prompt at a place of the source."""
        found = self.prompts.at(place.domain, place.ordinal, place.epoch)
        return Drawn(e.PromptRef(found.id, place.domain, place.ordinal, place.epoch), found.task, found.problem)

    def train(self, state: Run, drawn: Drawn, line: Lineage, at: int) -> Iterator[Output]:
        """Open a training group."""
        state.shares[drawn.ref.domain].open += 1
        return self._open(state, drawn, line, None, at)

    def evaluate(self, state: Run, drawn: Drawn, ref: e.EvalRef, at: int) -> Iterator[Output]:
        """Open a group of an evaluation."""
        return self._open(state, drawn, Lineage(), ref, at)

    def _open(self, state: Run, drawn: Drawn, line: Lineage, ref: e.EvalRef | None, at: int) -> Iterator[Output]:
        if state.policy is None:
            raise InvariantBroken("a prompt is issued before the first policy is known")
        rules = self.rules
        n = state.next_group
        partition = min(range(rules.partitions), key=lambda p: (state.open_in[p], p))
        gid = group_id(n, partition)
        root = line.root or gid
        purpose = Purpose.TRAIN if ref is None else Purpose.EVAL
        size, redundancy = (rules.group_size, rules.redundancy) if ref is None else (rules.evaluation.samples, 0)
        min_version = state.policy.version if ref is None else ref.version
        state.next_group += 1
        state.open_in[partition] += 1
        state.live[gid] = Live(drawn.ref, purpose, root, line.attempt)
        fields = (
            gid, drawn.ref, purpose, ref, root, line.replaces, line.attempt, seed_of(rules.seed, n), size, redundancy,
            min_version,
        )  # fmt: skip
        yield Output(Topic.PROMPTS, partition, e.PromptIssued(*fields, drawn.task, at))
        yield Output(Topic.ROLLOUTS, partition, e.GroupOpened(*fields, drawn.task, at))
        yield Output(Topic.LEDGER, 0, e.GroupOpened(*fields, None, at))
