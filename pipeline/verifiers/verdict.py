"""From a response's scores to one ResponseScored: the reward, what is known of it, and whether it can be a member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.domain import events as e
from pipeline.domain.vocabulary import DiscardReason, Failure, Grading
from pipeline.sdk import Score
from pipeline.verifiers.judge import OnFailure, weighted_sum
from pipeline.verifiers.returned import MISCONFIGURED, Blank, Outcome

MOST_ANSWER = 2_000
"""Characters of an answer that are recorded."""


class Opinion(NamedTuple):
    """What one binding of the task came to."""

    verifier: str
    weight: float
    outcome: Outcome
    on_failure: OnFailure


class Verdict(NamedTuple):
    """`ends_run`: why the run ends, if a verifier's failure says so. `answers`: what was read from the response."""

    reward: float | None
    components: dict[str, float]
    grading: Grading
    discard: DiscardReason | None
    failure: Failure | None = None
    detail: str | None = None
    ends_run: str | None = None
    answers: str | None = None


def failed(failure: Failure, detail: str | None) -> Verdict:
    """There is nothing to judge."""
    return Verdict(None, {}, Grading.FAILED, DiscardReason.FAILED, failure, detail)


def ungraded(detail: str, ends_run: bool = False) -> Verdict:
    """Nobody can say what it is worth: it is replaced."""
    return Verdict(None, {}, Grading.UNGRADED, DiscardReason.FAILED, None, detail, detail if ends_run else None)


def graded(reward: float) -> Verdict:
    """An environment's own reward."""
    return Verdict(reward, {}, Grading.GRADED, None)


def zero(detail: str | None) -> Verdict:
    """Nobody can say what it is worth: by the policy `zero` it stands, with reward 0."""
    return Verdict(0.0, {}, Grading.UNGRADED, None, None, detail)


def verdict_of(opinions: Sequence[Opinion]) -> Verdict:
    """Σ weight·score. A missing score is decided by its verifier's policy; the strictest of several counts, and one
    that no response could ever get ends the run."""
    components = _components(opinions)
    blanks = [(o, o.outcome) for o in opinions if isinstance(o.outcome, Blank)]
    if blanks:
        detail = "; ".join(blank.detail for _, blank in blanks)
        policies = {"raise" if blank.outcome == MISCONFIGURED else opinion.on_failure for opinion, blank in blanks}
        if policies != {"zero"}:
            lost = ungraded(detail, "raise" in policies)
            return lost._replace(components=components)
        return Verdict(_sum(opinions), components, Grading.UNGRADED, None, None, detail)
    return Verdict(_sum(opinions), components, Grading.GRADED, None, answers=_answers(opinions))


def _answers(opinions: Sequence[Opinion]) -> str | None:
    read = [(o.verifier, o.outcome.answer) for o in opinions if isinstance(o.outcome, Score)]
    told = [f"{verifier}: answer {answer[:MOST_ANSWER]}" for verifier, answer in read if isinstance(answer, str)]
    return "; ".join(told) or None


def _sum(opinions: Sequence[Opinion]) -> float:
    """A missing score counts 0 here: its verifier's policy is `zero`."""
    if len(opinions) == 1 and opinions[0].weight == 1.0:
        return _value(opinions[0].outcome)
    return weighted_sum([(o.weight, _value(o.outcome)) for o in opinions])


def _value(outcome: Outcome) -> float:
    return float(outcome.value) if isinstance(outcome, Score) and outcome.value is not None else 0.0


def _components(opinions: Sequence[Opinion]) -> dict[str, float]:
    """Each score by its verifier's name, and the verifier's own components by theirs; a name that is taken gets the
    verifier's in front."""
    found: dict[str, float] = {}
    for opinion in opinions:
        if isinstance(opinion.outcome, Score):
            found.setdefault(opinion.verifier, _value(opinion.outcome))
            for name, value in opinion.outcome.components.items():
                found[name if name not in found else f"{opinion.verifier}.{name}"] = float(value)
    return found


def scored(
    response: e.ResponseGenerated, verdict: Verdict, attempts: int, grading_ms: int, text: str | None, at: int
) -> e.ResponseScored:
    """The event."""
    return e.ResponseScored(
        response.group_id, response.slot, response.round, response.payload_key, response.payload_bytes,
        verdict.discard, verdict.reward, 0.0, verdict.reward, verdict.components, verdict.grading, verdict.failure,
        verdict.detail, attempts, grading_ms, response.finish_reason, response.prompt_tokens, response.response_tokens,
        response.oldest_version, response.newest_version, response.entropy, response.drop_flag, response.env_timeout,
        response.env_failed, response.generator, text, at,
    )  # fmt: skip
