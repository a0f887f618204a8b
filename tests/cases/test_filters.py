"""Situations of filters and statistics that users of such pipelines met, on the code that consumers run. Each names its
public thread; the texts are ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipeline.config import ConfigError, parse
from pipeline.domain import events as e
from pipeline.domain.filters.stage import Filter
from pipeline.domain.grouping import mean, sample_std
from pipeline.domain.reaping import DiscardReaper
from pipeline.domain.rules import AssemblyRules, DomainRules, FilterRule, Rules
from pipeline.domain.vocabulary import Category, ConstantClass, DiscardReason, Failure, Grading, Reason
from pipeline.history.view import RunView
from pipeline.sdk import Score, ScoreRequest
from pipeline.training.advantages import AdvantageConfig, group_advantages
from pipeline.verifiers.judge import Judge, OnFailure
from pipeline.verifiers.returned import Outcome
from pipeline.verifiers.verdict import Opinion, Verdict, verdict_of
from tests.domain.given import MEMBERS, Feed, assembled, assembling, failed, member, only, opened, rules, scored, tick

Answers = Mapping[str, Any]
CENTRED = AdvantageConfig("dr_grpo")
LEASE = 10_000
SPREAD: dict[str, dict[str, float]] = {"zero_std": {}, "std_filter": {"std_threshold": 0.1}}


class Judging:
    """A verifier that answers as it was told, by response."""

    batch, concurrency = 8, 1

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        return [self._answers[request.response_id] for request in requests]


def judged(answers: Answers, on_failure: OnFailure) -> tuple[dict[str, Verdict], Judge]:
    """What the scorer's judge and verdict make of each answer."""
    judge, outcomes = Judge("judge", Judging(answers), 60.0, on_failure), dict[str, Outcome]()

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            judge.start(tasks)
            judge.ask([
                (ScoreRequest(who, "text", "target", {}), lambda outcome, _, who=who: outcomes.update({who: outcome}))
                for who in answers
            ])  # fmt: skip

    asyncio.run(run())
    opinions = {who: Opinion("judge", 1.0, outcome, on_failure) for who, outcome in outcomes.items()}
    return {who: verdict_of([opinion]) for who, opinion in opinions.items()}, judge


def on_rollouts(response: str, verdict: Verdict) -> e.ResponseScored:
    """The scorer's event."""
    v = verdict
    return scored(
        response, v.reward, discard=v.discard, grading=v.grading, failure=v.failure, detail=v.detail,
        components=v.components, raw_score=v.raw, penalties=v.penalties,
    )  # fmt: skip


def filtering(type: str, **args: Any) -> Feed:
    domain = DomainRules("maths", 1, (FilterRule(type, args),), "hash")
    return Feed(Filter(replace(rules(), domains=(domain,)), MEMBERS))


def zero_std(metric: str = "reward") -> Feed:
    return filtering("zero_std", tol=1e-8, metric=metric, max_reward=1.0)


def by(count: Any = "valid") -> Rules:
    return rules(assembly=AssemblyRules(count, 5, LEASE, 6 * LEASE))


def who(group: e.Event) -> tuple[e.Member, ...]:
    assert isinstance(group, e.GroupAssembled | e.GroupAccepted | e.GroupRejected)
    return MEMBERS.decode(group.members)


def rewards(group: e.Event) -> list[float | None]:
    return [m.reward for m in who(group)]


# ------------------------------------------------------------------------- 1: huggingface/trl#5902 (pull request)


def answered(*rounds_of_slot_2: float | None, on_failure: OnFailure) -> tuple[Feed, list[e.Event], Judge]:
    """Slots 0, 1, 3 are judged 1, 1, 0; slot 2 is judged so in each of its rounds."""
    values = {"0@0/0.1": 1.0, "0@0/1.1": 1.0, "0@0/3.1": 0.0}
    values |= {f"0@0/2.{round}": value for round, value in enumerate(rounds_of_slot_2, 1)}  # type: ignore[dict-item]
    verdicts, judge = judged({response: Score(value) for response, value in values.items()}, on_failure)
    feed = assembling(by(), opened("0@0"))
    return feed, [o for response in values for o in feed(on_rollouts(response, verdicts[response]))], judge


def test_what_nobody_judged_is_asked_again_and_moves_no_baseline() -> None:
    _, outputs, judge = answered(None, 1.0, on_failure="drop_response")
    (unknown,) = only(outputs, e.ResponseDiscarded)
    assert (unknown.slot, unknown.reason, unknown.failure) == (2, DiscardReason.FAILED, None)
    (asked,) = only(outputs, e.ResponsesRequested)
    assert [(s.slot, s.round) for s in asked.slots] == [(2, 2)]
    (group,) = only(outputs, e.GroupAssembled)
    values = [r for r in rewards(group) if r is not None]
    assert values == [1.0, 1.0, 1.0, 0.0]
    assert (mean(values), sample_std(values)) == (0.75, 0.5)
    assert group_advantages(values, CENTRED) == [0.25, 0.25, 0.25, -0.75]
    verdicts, _ = judged({"0@0/2.1": Score(None)}, "drop_response")
    assert (verdicts["0@0/2.1"].reward, verdicts["0@0/2.1"].grading) == (None, Grading.UNGRADED)
    assert judge.health.total.failures == 1


def test_under_the_policy_zero_it_counts_as_0_and_says_that_it_is_unknown() -> None:
    _, outputs, judge = answered(None, on_failure="zero")
    (group,) = only(outputs, e.GroupAssembled)
    assert rewards(group) == [1.0, 1.0, 0.0, 0.0]
    assert [m.grading for m in who(group)] == [Grading.GRADED, Grading.GRADED, Grading.UNGRADED, Grading.GRADED]
    assert group.scores.reward_mean == 0.5
    (accepted,) = zero_std()(group)
    assert [m.grading for m in who(accepted)][2] is Grading.UNGRADED
    assert judge.health.total.failures == 1


def test_what_is_never_judged_ends_the_group_and_never_makes_it_shorter() -> None:
    feed, outputs, _ = answered(*[None] * 5, on_failure="drop_response")
    (group,) = only(outputs, e.GroupRejected)
    assert (group.category, group.reason) == (Category.INVALID, Reason.RESPONSE_RETRIES_EXHAUSTED)
    assert (group.measurements, only(outputs, e.GroupAssembled), feed.state.open) == ({"ungraded": 5.0}, [], {})


# ------------------------------------------------------------------------- 3: NVIDIA-NeMo/RL#2431 (issue)


def penalised(raw: Sequence[float], penalties: Sequence[float]) -> e.GroupAssembled:
    """A group whose rewards are raw scores with penalties, as its verifier tells them."""
    feed = assembling(by(), opened("0@0", len(raw)))
    told = {
        f"0@0/{slot}.1": Score(score, penalty=penalty)
        for slot, (score, penalty) in enumerate(zip(raw, penalties, strict=True))
    }
    answers = [on_rollouts(response, verdict) for response, verdict in judged(told, "drop_response")[0].items()]
    assert [(s.raw_score, s.penalties, s.reward) for s in answers] == [
        (score, penalty, score + penalty) for score, penalty in zip(raw, penalties, strict=True)
    ]
    (group,) = only(feed(*answers), e.GroupAssembled)
    return group


@pytest.mark.parametrize(
    ("raw", "penalties", "kind", "name"),
    [
        ([-1.0] * 4, [0.0, 0.0, 0.0, -0.5], ConstantClass.CONSTANT, "drop_zero_std_-1.0"),
        ([1.0] * 4, [0.0, -0.25, 0.0, 0.0], ConstantClass.ALL_MAX, "drop_zero_std_1.0"),
    ],
)
def test_a_filter_of_the_raw_score_is_not_deceived_by_penalties(
    raw: list[float], penalties: list[float], kind: ConstantClass, name: str
) -> None:
    (group,) = zero_std("raw")(penalised(raw, penalties))
    assert isinstance(group, e.GroupRejected) and group.category is Category.LOW_INFORMATION
    assert (group.constant_class, group.metric_name, group.measured, group.metric) == (kind, name, 0.0, "raw")
    assert [m.penalties for m in who(group)] == penalties


def test_a_filter_of_the_final_reward_sees_them_and_says_so() -> None:
    group = penalised([-1.0] * 4, [0.0, 0.0, 0.0, -0.5])
    (accepted,) = zero_std("reward")(group)
    assert isinstance(accepted, e.GroupAccepted)
    assert (accepted.measured, accepted.measurements) == (0.25, {"reward_std": 0.25})
    assert group.scores.reward_mean == -1.125


def problems(**changes: Any) -> list[str]:
    """What a configuration check says."""
    plugin = {"factory": "somewhere:Something"}
    least = {"run": "r", "steps": 10, "prompts": plugin, "engine": plugin, "learner": plugin}
    try:
        parse(least | {"domains": {"maths": {"quota": 4}}} | changes)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


# ------------------------------------------------------------------------- 5: rllm-org/rllm#776 (pull request)


@pytest.mark.parametrize("type", ["zero_std", "std_filter"])
def test_groups_of_one_are_refused_with_a_filter_of_spread(type: str) -> None:
    (text,) = problems(group_size=1, filters={"default": [{"type": type, **SPREAD[type]}]})
    assert re.search(rf"group_size.*{type}.*at least 2", text)


def test_a_group_of_one_has_advantage_0() -> None:
    for kind in ("grpo", "dr_grpo", "leave_one_out"):
        assert group_advantages([0.7], AdvantageConfig(kind)) == [0.0]


def test_a_wrong_group_id_makes_no_group_and_is_counted_at_once() -> None:
    feed = assembling(by(), opened("7@0"))
    gone = only(feed(*(scored(f"g7-{slot}/{slot}.1") for slot in range(4))), e.ResponseDiscarded)
    assert [d.reason for d in gone] == [DiscardReason.UNKNOWN_GROUP] * 4
    dropped = only(Feed(DiscardReaper())(*gone), e.PayloadsDropped)
    assert [key for drop in dropped for key in drop.keys] == [f"key of g7-{slot}/{slot}.1" for slot in range(4)]
    (asked,) = only(feed(tick(LEASE)), e.ResponsesRequested)
    assert [(s.slot, s.round) for s in asked.slots] == [(slot, 1) for slot in range(4)]
    right = [scored(f"7@0/{slot}.1", float(slot)) for slot in range(4)]
    (group,) = only(feed(*right), e.GroupAssembled)
    assert len(who(group)) == 4


def test_groups_of_one_are_fine_in_an_evaluation() -> None:
    numbers = {"factory": "tests.e2e.plugins:Numbers", "options": {"sizes": {"a": 3}}}
    assert problems(eval_prompts=numbers, evaluation={"samples": 1, "every": 1}) == []


# ------------------------------------------------------------------------- 7: THUDM/slime#2157 (pull request)


def test_an_aborted_group_is_rejected_before_any_statistic() -> None:
    feed = assembling(by("any"), opened("0@0", 2))
    (group,) = only(feed(failed("0@0/0.1"), failed("0@0/1.1")), e.GroupAssembled)
    assert rewards(group) == [None, None] and group.scores.reward_mean is None
    (rejected,) = zero_std()(group)
    assert isinstance(rejected, e.GroupRejected)
    assert (rejected.category, rejected.reason) == (Category.INVALID, Reason.ABORTED)
    assert (rejected.metric_name, rejected.measurements, rejected.constant_class) == ("drop_aborted", {}, None)
    view = RunView()
    view.groups.note(0, opened("0@0", 2))
    view.groups.note(1, rejected)
    assert view.groups.rejected == {"aborted": 1}


def test_an_aborted_response_of_a_valid_group_is_asked_again() -> None:
    feed = assembling(by(), opened("0@0"))
    feed(scored("0@0/0.1", 1.0), scored("0@0/2.1", 0.0), scored("0@0/3.1", 1.0))
    (asked,) = only(feed(failed("0@0/1.1", Failure.ABORTED)), e.ResponsesRequested)
    assert [(s.slot, s.round) for s in asked.slots] == [(1, 2)]
    (group,) = only(feed(scored("0@0/1.2", 1.0)), e.GroupAssembled)
    (accepted,) = zero_std()(group)
    assert rewards(accepted) == [1.0, 1.0, 0.0, 1.0]
    assert isinstance(accepted, e.GroupAccepted) and accepted.measured == 0.5


@pytest.mark.parametrize("on_failure", ["drop_response", "zero", "raise"])
def test_a_verifier_that_answers_with_a_dict_fails_for_that_response_alone(on_failure: OnFailure) -> None:
    answers: dict[str, Any] = {f"0@0/{slot}.1": Score(float(slot % 2)) for slot in range(4)}
    answers["0@0/1.1"] = {"teacher_logprobs": [-1.0, -2.0]}
    verdicts, _ = judged(answers, on_failure)
    broken = verdicts["0@0/1.1"]
    assert "verifier 'judge' returned a dict; expected a pipeline.sdk.Score" in (broken.detail or "")
    assert broken.grading is Grading.UNGRADED
    assert (broken.reward, bool(broken.ends_run)) == (0.0 if on_failure == "zero" else None, on_failure == "raise")
    assert [verdicts[f"0@0/{slot}.1"].reward for slot in (0, 2, 3)] == [0.0, 0.0, 1.0]


def test_no_member_without_a_number_reaches_a_statistic() -> None:
    broken = [member(0, None), member(1, 1.0)]
    for type in ("zero_std", "finished_zero_std", "std_filter", "mean_filter", "band", "no_filter"):
        args = {"tol": 1e-8, "metric": "reward", "max_reward": 1.0, "std_threshold": 0.0, "ddof": 1, "compat": None}
        args |= {"threshold_down": None, "threshold_up": None, "low": 0.0, "high": 1.0}
        (rejected,) = filtering(type, **args)(assembled("0@0", broken, 2))
        assert isinstance(rejected, e.GroupRejected) and rejected.reason is Reason.UNGRADED
        assert rejected.measurements == {}
