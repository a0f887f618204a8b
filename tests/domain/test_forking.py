"""Where a run can be gone on from: the checkpoints on its ledger, their steps, and the prompts drawn by then."""

from __future__ import annotations

from pipeline.domain import events as e
from pipeline.domain.forking import newest, positions
from pipeline.domain.vocabulary import SkippedPrompt

from .given import asked, formed, opened, returned, saved, skipped, trained

SIZES = {"maths": 10, "code": 3}


def drew(domain: str, epoch: int, ordinal: int, replaces: str | None = None) -> e.GroupOpened:
    return opened("1@0", prompt=e.PromptRef("p", domain, epoch=epoch, ordinal=ordinal), replaces=replaces)


def steps(*events: e.Event) -> list[tuple[int, int]]:
    """Version and step of each checkpoint."""
    return [(found.checkpoint.version, found.step) for found in positions(events, SIZES, {})]


def drawn(*events: e.Event, **begun: int) -> dict[str, int]:
    (found,) = positions([*events, saved(0)], SIZES, begun)
    return dict(found.drawn)


def test_a_checkpoint_has_the_steps_that_are_in_its_weights() -> None:
    """The one that is written with a step stands before it."""
    with_the_step = [formed(1, "0@0"), saved(1, 1), trained(1), formed(2, "1@0"), trained(2), saved(2, 2)]
    assert steps(saved(0), *with_the_step) == [(0, 0), (1, 1), (2, 2)]


def test_a_skipped_step_is_one_and_a_returned_batch_is_none() -> None:
    assert steps(trained(1), skipped(2), saved(1, 1)) == [(1, 2)]
    assert steps(trained(1), returned(1, trained=True), trained(2, 2), saved(2, 2)) == [(2, 1)]
    assert steps(returned(1), trained(2, 1), saved(1, 2)) == [(1, 1)]
    assert steps(trained(1), returned(1, trained=True), saved(2, 1), trained(1, 2)) == [(2, 1)]


def test_prompts_count_up_to_the_furthest_one_in_all_passes_skipped_ones_included() -> None:
    assert drawn() == {"maths": 0, "code": 0}
    assert drawn(drew("maths", 0, 4), drew("code", 2, 1)) == {"maths": 5, "code": 8}
    passed_over = e.PromptSkipped(e.PromptRef("p", "maths", 6, 0), SkippedPrompt.TOO_LONG, "200 tokens", 0)
    assert drawn(drew("maths", 0, 5), passed_over) == {"maths": 7, "code": 0}


def test_a_prompt_that_is_issued_again_is_not_drawn_again_and_an_evaluation_draws_none() -> None:
    assert drawn(drew("maths", 1, 2), drew("maths", 0, 9, replaces="1@0"), asked("2@0")) == {"maths": 13, "code": 0}


def test_what_is_drawn_after_a_checkpoint_does_not_count_for_it() -> None:
    first, second = positions([drew("maths", 0, 0), saved(0), drew("maths", 0, 1), saved(1)], SIZES, {})
    assert (first.drawn["maths"], second.drawn["maths"]) == (1, 2)


def test_a_run_that_was_forked_itself_begins_with_the_prompts_of_its_origin() -> None:
    assert drawn(maths=25) == {"maths": 25, "code": 0}
    assert drawn(drew("maths", 2, 5), maths=25, gone=7) == {"maths": 26, "code": 0}


def test_a_log_that_contradicts_itself_is_read_all_the_same() -> None:
    assert steps(saved(3, 7, 8), trained(9), returned(5, trained=True), drew("nosuch", 0, 0), saved(4, 9)) == [
        (3, 2),
        (4, 0),
    ]


def test_the_newest_is_the_last_one_or_the_last_up_to_a_step() -> None:
    found = list(positions([saved(0), trained(1), saved(1, 1), trained(2), trained(3), saved(3, 2, 3)], SIZES, {}))
    chosen = [newest(found, step) for step in (None, 0, 2, 3, 99)]
    assert [c.step if c else None for c in chosen] == [3, 0, 1, 3, 3]
    assert newest([], None) is newest(found[1:], 0) is None
