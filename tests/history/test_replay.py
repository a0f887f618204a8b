"""A scheduler is replayed from its own records, whatever its source did; and with the source where it is at hand."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Outcome
from pipeline.history.audits.audit import Audit, audit
from pipeline.history.audits.prompts import NotRecorded, RecordedPrompts
from pipeline.history.audits.replay import Sources
from pipeline.history.records import MemoryLog
from pipeline.log.codec import Members

from .drive import CONFIG, Drive, Numbers


def audited(drive: Drive, sources: Sources | None = None) -> Audit:
    return audit(MemoryLog(drive.records), drive.started, Members(), sources=sources)


def driven(config: dict[str, Any], source: Numbers) -> Drive:
    drive = Drive(config, source)
    drive.run(300)
    return drive


def outcome(drive: Drive) -> Outcome:
    return next(event.outcome for r in drive.records if isinstance(event := r.event(), e.RunFinished))


@pytest.mark.parametrize("size", [1, 2, 5, 7, 11, 12, 13, 40])
@pytest.mark.parametrize("steps", [1, 4])
def test_a_source_that_runs_out_needs_no_recording_of_its_size(size: int, steps: int) -> None:
    drive = driven({"steps": steps}, Numbers("train", size))
    assert outcome(drive) is Outcome.COMPLETED
    found = audited(drive)
    assert (found.violations, found.pending) == ([], [])


@pytest.mark.parametrize("ordinal", [0, 1, 5, 12])
def test_a_prompt_that_ends_the_run_is_known_from_its_closing(ordinal: int) -> None:
    drive = driven({}, Numbers("train", 500, too_long=ordinal))
    assert outcome(drive) is Outcome.FAILED
    found = audited(drive)
    assert (found.violations, found.pending) == ([], [])


@pytest.mark.parametrize("size", [3, 6, 500])
def test_skipped_prompts_are_replayed(size: int) -> None:
    drive = driven({"too_long": "skip"}, Numbers("train", size, too_long=2))
    assert any(isinstance(r.event(), e.PromptSkipped) for r in drive.records)
    found = audited(drive)
    assert (found.violations, found.pending) == ([], [])


@pytest.mark.parametrize(
    "config",
    [
        {"replacement": "same_prompt"}, {"replacement": "new_seed"}, {"expired_replacement": "next_prompt"},
        {"max_attempts": 1}, {"partitions": 3, "filter_partitions": 1}, {"async_ratio": 0.0, "prefetch": 0},
        {"assembly": {**CONFIG["assembly"], "count": "any"}},
        {"evaluation": {**CONFIG["evaluation"], "every": 0}},
    ],
)  # fmt: skip
def test_every_kind_of_run_replays(config: dict[str, Any]) -> None:
    found = audited(driven(config, Numbers("train", 1000)))
    assert (found.violations, [p for p in found.pending if "RunFinished" not in p]) == ([], [])


def test_with_the_source_at_hand_a_changed_source_is_found(drive: Drive) -> None:
    whole = Sources(Numbers("train", 1000), Numbers("eval", 3), ("sort",))
    other = Sources(Numbers("other", 1000), Numbers("eval", 3), ("sort",))
    assert audited(drive, whole).violations == []
    assert any("PromptIssued" in sentence for sentence in audited(drive, other).violations)


def test_a_live_scheduler_is_compared_as_far_as_it_is_recorded() -> None:
    drive = Drive()
    drive.run(6)
    drive.fact("ticker", Topic.LEDGER, 0, e.Tick(drive.now, None))
    found = audited(drive)
    assert found.violations == []
    assert any(sentence.startswith("I6 scheduler/0: input from ledger/0/") for sentence in found.pending)


def test_answers_to_input_that_is_not_there_are_found() -> None:
    drive = Drive()
    drive.run(6)
    cut = [r for r in drive.records if r.topic is not Topic.GROUPS or r.partition or r.offset]
    found = audit(MemoryLog(cut), drive.started, Members())
    assert any("I6 filter at groups/0/0, output 0: expected nothing, got ledger/0/" in s for s in found.violations)


def test_another_decision_version_is_not_replayed(drive: Drive) -> None:
    versions = {**drive.started.decision_versions, "filter": 99}
    started = e.RunStarted(
        **{n: getattr(drive.started, n) for n in drive.started.__slots__} | {"decision_versions": versions}
    )
    found = audit(MemoryLog(drive.records), started, Members())
    assert any("decision versions differ" in sentence for sentence in found.pending)


def test_what_was_never_asked_for_is_not_recorded() -> None:
    prompts = RecordedPrompts({"sort": 7})
    assert prompts.size("sort") == 7
    with pytest.raises(NotRecorded):
        prompts.at("sort", 0, 0)


RANKED = {
    "type": "ranked", "strategy": "top_k", "value": 0.5, "metric": "reward_variance", "keep": "largest",
    "mode": "linear", "eps": 0.01, "include_zero": True, "window": 6, "loss_rescale": "sqrt", "weights": "soft",
    "variance_stop": True,
}  # fmt: skip
CUSTOM = {
    "type": "custom", "factory": "examples.selector:HalfSolved", "options": {"keep": 3}, "on_error": "raise",
    "window": 5, "loss_rescale": "none", "variance_stop": False,
}  # fmt: skip


@pytest.mark.parametrize("size", [3, 16, 500])
@pytest.mark.parametrize("refill", [True, False])
@pytest.mark.parametrize("selection", [RANKED, CUSTOM], ids=["ranked", "custom"])
def test_a_selection_is_audited_and_replayed(selection: dict[str, Any], refill: bool, size: int) -> None:
    drive = driven({"selection": selection | {"refill": refill}}, Numbers("train", size))
    assert outcome(drive) is Outcome.COMPLETED
    found = audited(drive)
    assert (found.violations, found.pending, found.drained) == ([], [], True)
    assert size < 4 or any(isinstance(r.event(), e.GroupDeselected) for r in drive.records)
