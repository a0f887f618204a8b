"""From a response's scores to one ResponseScored: the reward, what is known of it, and whether it can be a member."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.domain import events as e
from pipeline.domain.told import told
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
    """`raw`: the score before `penalties`. `ends_run`: why the run ends, if a verifier's failure says so. `answers`:
    what was read from the response."""

    raw: float | None
    components: dict[str, float]
    grading: Grading
    discard: DiscardReason | None
    failure: Failure | None = None
    detail: str | None = None
    ends_run: str | None = None
    answers: str | None = None
    penalties: float = 0.0

    @property
    def reward(self) -> float | None:
        """What it is worth in all."""
        return None if self.raw is None else self.raw + self.penalties


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
    """Σ weight·score, and Σ weight·penalty beside it. A missing score is decided by its verifier's policy; the
    strictest of several counts, and one that no response could ever get ends the run."""
    components, penalties = _components(opinions), _sum(opinions, _penalty)
    blanks = [(o, o.outcome) for o in opinions if isinstance(o.outcome, Blank)]
    if blanks:
        detail = "; ".join(blank.detail for _, blank in blanks)
        policies = {"raise" if blank.outcome == MISCONFIGURED else opinion.on_failure for opinion, blank in blanks}
        if policies != {"zero"}:
            lost = ungraded(detail, "raise" in policies)
            return lost._replace(components=components)
        return Verdict(_sum(opinions, _value), components, Grading.UNGRADED, None, None, detail, None, None, penalties)
    raw, answers = _sum(opinions, _value), _answers(opinions)
    return Verdict(raw, components, Grading.GRADED, None, answers=answers, penalties=penalties)


def _answers(opinions: Sequence[Opinion]) -> str | None:
    read = [(o.verifier, o.outcome.answer) for o in opinions if isinstance(o.outcome, Score)]
    said = [f"{verifier}: answer {told(answer[:MOST_ANSWER])}" for verifier, answer in read if isinstance(answer, str)]
    return "; ".join(said) or None


def _sum(opinions: Sequence[Opinion], number: Callable[[Outcome], float]) -> float:
    """A missing score counts 0 here: its verifier's policy is `zero`."""
    if len(opinions) == 1 and opinions[0].weight == 1.0:
        return number(opinions[0].outcome)
    return weighted_sum([(o.weight, number(o.outcome)) for o in opinions])


def _value(outcome: Outcome) -> float:
    return float(outcome.value) if isinstance(outcome, Score) and outcome.value is not None else 0.0


def _penalty(outcome: Outcome) -> float:
    return float(outcome.penalty) if isinstance(outcome, Score) else 0.0


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
        verdict.discard, verdict.raw, verdict.penalties, verdict.reward, verdict.components, verdict.grading,
        verdict.failure, verdict.detail, attempts, grading_ms, response.finish_reason,
        response.prompt_tokens, response.response_tokens,
        response.oldest_version, response.newest_version, response.entropy, response.drop_flag, response.env_timeout,
        response.env_failed, response.generator, text, at,
    )  # fmt: skip
