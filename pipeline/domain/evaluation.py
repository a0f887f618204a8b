"""Evaluations: started when due, answered one after the other by the one policy that they name, and never filtered."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain import events as e
from pipeline.domain.grouping import mean
from pipeline.domain.issuing import Issuer
from pipeline.domain.ports import Prompts
from pipeline.domain.rules import Rules
from pipeline.domain.run_state import Evaluation, Run
from pipeline.domain.topology import InvariantBroken, Output, Topic


def plan(rules: Rules, prompts: Prompts | None, domains: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The (domain, ordinal) places of every evaluation, the domains in turn, at most `limit` of them (0: all)."""
    if prompts is None or rules.evaluation.every == 0:
        return ()
    places = [(o, i, d) for i, d in enumerate(domains) for o in range(prompts.size(d))]
    ordered = tuple((d, o) for o, _, d in sorted(places))
    return ordered[: rules.evaluation.limit] if rules.evaluation.limit else ordered


def start_if_due(state: Run, rules: Rules, groups: int, over: bool, at: int) -> Iterator[Output]:
    """Before the first batch, every E steps and at the end; once for each number of steps."""
    step = state.steps_done
    if not groups or state.policy is None or step <= state.last_evaluated_step:
        return
    if over or step % rules.evaluation.every == 0:
        ref = e.EvalRef(step, state.policy.version, state.policy.path, state.policy.sha256)
        state.last_evaluated_step = step
        state.evaluations.append(Evaluation(ref, step, groups))
        yield Output(Topic.LEDGER, 0, e.EvaluationStarted(ref, step, groups, at))


def open_prompts(
    state: Run, rules: Rules, issuer: Issuer, places: tuple[tuple[str, int], ...], at: int
) -> Iterator[Output]:
    """Issue prompts of the first unfinished evaluation, `max_open` at once."""
    if not state.evaluations:
        return
    current = state.evaluations[0]
    while current.opened < current.groups and current.opened - current.closed < rules.evaluation.max_open:
        domain, ordinal = places[current.opened]
        current.opened += 1
        yield from issuer.evaluate(state, issuer.at(e.PromptRef("", domain, ordinal, 0)), current.ref, at)


def count(state: Run, event: e.GroupEvaluated) -> None:
    """Add a group's answers to its evaluation."""
    if not state.evaluations or state.evaluations[0].ref.id != event.eval.id:
        raise InvariantBroken(f"group {event.group_id} answers evaluation {event.eval.id}, which is not under way")
    current = state.evaluations[0]
    current.closed += 1
    current.graded += event.graded
    current.ungraded += event.ungraded
    current.failed += event.failed
    if event.mean_reward is not None:
        current.means.append(event.mean_reward)


def count_lost(state: Run, samples: int) -> None:
    """A group of the evaluation under way could not be read: its samples failed."""
    if state.evaluations:
        state.evaluations[0].closed += 1
        state.evaluations[0].failed += samples


def finish(state: Run, at: int) -> Iterator[Output]:
    """Report each evaluation whose groups have all ended."""
    while state.evaluations and state.evaluations[0].closed == state.evaluations[0].groups:
        yield _result(state.evaluations.pop(0), False, at)


def cut(state: Run, at: int) -> Iterator[Output]:
    """The run is closing: report what there is of each unfinished evaluation."""
    for unfinished in state.evaluations:
        yield _result(unfinished, True, at)
    state.evaluations.clear()


def _result(done: Evaluation, was_cut: bool, at: int) -> Output:
    average = mean(done.means) if done.means else None
    finished = e.EvaluationFinished(
        done.ref, done.step, done.closed, done.graded, done.ungraded, done.failed, average, was_cut, at
    )
    return Output(Topic.LEDGER, 0, finished)
