"""How verifiers do, counted before any filter: in all, over a minute, in words, for Prometheus, and from the log."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.vocabulary import FinishReason, Grading
from pipeline.history.outages import told_of
from pipeline.sdk import Score
from pipeline.verifiers.health import AGAIN_S, WINDOW_S, Health
from pipeline.verifiers.metrics import registry
from pipeline.verifiers.returned import Blank

RIGHT, LATE = Score(1.0), Blank("timeout", "verifier 'math': not decided within 45 s")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health("math", clock)


def test_every_response_is_counted_and_the_last_minute_apart(health: Health, clock: Clock):
    health.note([RIGHT, LATE, Blank("error", "broken")], 2.0)
    clock.now += WINDOW_S + 1
    health.note([RIGHT], 0.5)
    total, recent = health.total, health.recent()
    assert (total.calls, total.responses, total.failures, total.timeouts, total.seconds) == (2, 4, 2, 1, 2.5)
    assert (recent.calls, recent.responses, recent.failures, recent.seconds) == (1, 1, 0, 0.5)


def test_an_outage_is_told_at_once_then_now_and_then_and_when_it_is_over(health: Health, clock: Clock):
    for _ in range(3):
        health.note([LATE], 1.0)
    assert health.news() is None  # three may be an accident
    for _ in range(37):
        health.note([LATE], 1.0)
    text = f"verifier math: 40 of 40 calls failed in the last {WINDOW_S} s: verifier 'math': not decided within 45 s"
    assert health.outage() == text and health.news() == (True, text)
    assert health.news() is None
    clock.now += AGAIN_S
    assert health.news() == (True, text)
    clock.now += WINDOW_S + 1
    health.note([RIGHT], 1.0)
    assert health.news() == (False, "verifier math answers again") and health.news() is None


def test_a_failure_among_many_verdicts_is_no_outage(health: Health):
    health.note([*[RIGHT] * 50, *[LATE] * 20], 1.0)
    assert health.outage() is None


def test_prometheus_gets_each_verifier_by_name(health: Health):
    scraped = registry([health, Health("code")])
    health.note([RIGHT, *[LATE] * 7], 4.0)
    assert {name: scraped.get_sample_value(f"tamis_verifier_{name}", {"verifier": "math"}) for name in (
        "calls_total", "responses_total", "failures_total", "timeouts_total", "seconds_total", "recent_responses",
        "recent_failures", "recent_timeouts", "latency_seconds", "out",
    )} == {
        "calls_total": 1, "responses_total": 8, "failures_total": 7, "timeouts_total": 7, "seconds_total": 4.0,
        "recent_responses": 8, "recent_failures": 7, "recent_timeouts": 7, "latency_seconds": 4.0, "out": 1,
    }  # fmt: skip
    assert scraped.get_sample_value("tamis_verifier_responses_total", {"verifier": "code"}) == 0
    assert scraped.get_sample_value("tamis_verifier_out", {"verifier": "code"}) == 0


def scored(detail: str | None = None, **components: float) -> e.ResponseScored:
    fields: dict[str, Any] = dict.fromkeys(e.ResponseScored.__dataclass_fields__, 0)
    fields |= {"group_id": "0@0", "detail": detail, "components": components, "finish_reason": FinishReason.STOP}
    fields |= {"grading": Grading.GRADED if detail is None else Grading.UNGRADED}
    return e.ResponseScored(**fields)


def test_the_log_alone_tells_which_verifier_is_out():
    late = "verifier 'math' took over 60 s"
    events = [scored(late, code=1.0) for _ in range(4)] + [scored(math=1.0) for _ in range(2)]
    events += [scored("verifier 'nobody' is not one"), scored("gsm8k: answer 5", gsm8k=1.0)]
    assert told_of(events, ("math", "code", "gsm8k")) == [
        f"verifier math: 4 of 6 calls failed in the last {WINDOW_S} s: {late}"
    ]
    assert told_of(events[:3], ("math",)) == []
