"""The trainer's book: what to do next, what a restart has to read again, and which files may go."""

from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.training import (
    Action,
    Begin,
    Book,
    GiveBack,
    Policy,
    Save,
    TakeOver,
    Train,
    disposable,
    next_action,
    note,
    position,
)
from pipeline.domain.vocabulary import Outcome, ReturnReason

from .given import EVAL, LARGE, formed, opened, returned, rules, saved, skipped, started
from .given import trained as trained_on


class Trainer:
    """A book over a ledger; `again` is what a trainer finds that starts from a committed position."""

    def __init__(self, **changes: Any) -> None:
        self.rules: Rules = rules(**{"checkpoint_every": 2, "steps": 9, **changes})
        self.book = Book()
        self.ledger: list[e.Event] = []

    def __call__(self, *events: e.Event) -> "Trainer":
        for event in events:
            note(self.book, event, len(self.ledger))
            self.ledger.append(event)
        return self

    def next(self, joined: bool = True) -> Action | None:
        return next_action(self.book, self.rules, joined)

    def does(self, batch: int, *covered: int) -> None:
        """Train a batch and write what it leads to."""
        action = self.next()
        assert action == Train(batch, False, self.version() + 1, covered)
        self.book.pending[batch].applied = True
        version = self.version() + 1
        self(*([saved(version, *covered)] if covered else []), trained_on(batch, version))

    def version(self) -> int:
        return self.book.published.version if self.book.published else 0

    def again(self) -> "Trainer":
        """A trainer that starts where this one has committed, knowing its metadata."""
        offset, steps = position(self.book, len(self.ledger))
        other = Trainer(checkpoint_every=self.rules.checkpoint_every, steps=self.rules.steps)
        other.book = Book(
            steps_done=steps,
            incarnation=self.book.incarnation,
            published=self.book.published,
            published_offset=self.book.published_offset,
            saved=self.book.saved,
            saved_offset=self.book.saved_offset,
        )
        other.ledger = self.ledger[:offset]
        return other(*self.ledger[offset:])


def training(**changes: Any) -> Trainer:
    return Trainer(**changes)(saved(0), started(1, 0))


def test_the_very_first_trainer_begins() -> None:
    assert Trainer().next(joined=False) == Begin()


def test_a_trainer_of_a_run_that_was_stopped_before_it_began_has_nothing_to_do() -> None:
    assert Trainer()(e.RunClosing(Outcome.STOPPED, "", 0)).next(joined=False) is None


def test_a_later_trainer_takes_over_the_last_checkpoint_and_the_policy_last_published() -> None:
    trainer = training()(formed(1, "0@0"))
    trainer.does(1)
    expected = TakeOver(Policy(0, "checkpoint-0", "hash 0"), Policy(1, "policy-1", "hash 1"), 2)
    assert trainer.next(joined=False) == expected


def test_without_a_batch_it_waits() -> None:
    assert training().next() is None


def test_batches_are_trained_in_order_and_checkpoints_cover_all_since_the_last() -> None:
    trainer = training()(formed(1, "0@0"), formed(2, "1@0"), formed(3, "2@0"))
    trainer.does(1)
    trainer.does(2, 1, 2)
    trainer.does(3)
    assert list(trainer.book.pending) == [3]


def test_the_last_step_has_a_checkpoint() -> None:
    trainer = training(checkpoint_every=100, steps=2)(formed(1, "0@0"), formed(2, "1@0"))
    trainer.does(1)
    trainer.does(2, 1, 2)
    assert trainer.next() is None


def test_a_checkpoint_is_due_when_trained_payloads_fill_half_the_budget() -> None:
    trainer = training(checkpoint_every=100, payload_budget=1000)
    trainer(formed(1, "0@0", payload=500), formed(2, "1@0", payload=1))
    trainer.does(1)
    trainer.does(2, 1, 2)


def test_a_skipped_step_is_a_step_for_checkpoints() -> None:
    trainer = training()(formed(1, "0@0"))
    trainer.does(1)
    assert trainer(skipped(2)).next() == Save((1,))
    assert trainer(saved(1, 1)).next() is None


def test_a_checkpoint_that_a_skipped_step_made_due_comes_with_the_batch_that_was_read_with_it() -> None:
    trainer = training()(formed(1, "0@0"))
    trainer.does(1)
    trainer(skipped(2), formed(3, "1@0"))
    trainer.does(3, 1, 3)
    assert trainer.again().next() is None


def test_a_skipped_step_with_nothing_new_to_save_makes_no_checkpoint_due() -> None:
    trainer = training(checkpoint_every=3)(skipped(1), skipped(2), skipped(3), formed(4, "0@0"))
    trainer.does(4)


def test_a_restart_trains_again_without_events_what_no_checkpoint_covers() -> None:
    trainer = training(checkpoint_every=3)(formed(1, "0@0"), formed(2, "1@0"), formed(3, "2@0"))
    trainer.does(1)
    trainer.does(2)
    again = trainer.again()
    again.rules = trainer.rules
    for batch in (1, 2):
        assert again.next() == Train(batch, True, 2, ())
        again.book.pending[batch].applied = True
    again.does(3, 1, 2, 3)


def test_versions_go_on_after_a_returned_batch() -> None:
    trainer = training()(formed(1, "0@0"))
    trainer.does(1)
    trainer(returned(1, "0@0", trained=True), formed(2, "1@0"))
    assert trainer.next() == Train(2, False, 2, ())
    assert trainer.book.steps_done == 0


def test_the_committed_offset_is_the_oldest_thing_that_is_not_over() -> None:
    trainer = training()
    assert position(trainer.book, 2) == (2, 0)
    trainer(formed(1, "0@0"), formed(2, "1@0"))
    trainer.does(1)
    assert position(trainer.book, 5) == (2, 0)
    trainer.does(2, 1, 2)
    assert position(trainer.book, 7) == (7, 2)
    started_at = len(trainer.ledger)
    trainer(e.EvaluationStarted(EVAL, 2, 1, 0), formed(3, "2@0"))
    assert position(trainer.book, 9) == (started_at, 2)
    trainer(e.EvaluationFinished(EVAL, 2, 1, 1, 0, 0, 1.0, False, 0))
    assert position(trainer.book, 10) == (started_at + 1, 2)
    trainer(e.RunClosing(Outcome.STOPPED, "", 0))
    trainer(returned(3, reason=ReturnReason.RUN_OVER))
    assert position(trainer.book, 12) == (trainer.ledger.index(e.RunClosing(Outcome.STOPPED, "", 0)), 2)


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_restart_at_any_moment_finds_the_book_as_it_was(cut: int) -> None:
    history: list[e.Event] = [
        saved(0), started(1, 0), formed(1, "0@0"), formed(2, "1@0"), trained_on(1), formed(3, "2@0"), saved(2, 1, 2),
        trained_on(2), skipped(4), trained_on(3, 3), returned(3, "2@0", trained=True), formed(5, "3@0"),
        e.EvaluationStarted(EVAL, 3, 1, 0),
    ]  # fmt: skip
    trainer = Trainer()(*history[:cut])
    again = trainer.again()
    assert again.book == trainer.book


def test_a_closing_run_returns_what_is_not_trained_and_saves_what_is() -> None:
    trainer = training(checkpoint_every=100)(formed(1, "0@0"), formed(2, "1@0"))
    trainer.does(1)
    trainer(e.RunClosing(Outcome.STOPPED, "", 0))
    assert trainer.next() == GiveBack(2, ReturnReason.RUN_OVER)
    assert trainer(returned(2, reason=ReturnReason.RUN_OVER)).next() == Save((1,))


def test_a_closing_run_trains_again_what_it_has_to_save() -> None:
    trainer = training(checkpoint_every=100)(formed(1, "0@0"))
    trainer.does(1)
    trainer(e.RunClosing(Outcome.STOPPED, "", 0))
    again = trainer.again()
    assert isinstance(again.next(joined=False), TakeOver)
    assert again.next() == Train(1, True, 1, ())


def test_a_failed_trainer_returns_every_batch_that_no_checkpoint_covers() -> None:
    trainer = training()(formed(1, "0@0"), formed(2, "1@0"), formed(3, "2@0"))
    trainer.does(1)
    trainer(e.StageFailed("trainer", None, "loss is NaN", 0))
    assert trainer.next() == GiveBack(1, ReturnReason.FAILED)
    trainer(returned(1, trained=True, reason=ReturnReason.FAILED))
    assert trainer.next() == GiveBack(2, ReturnReason.FAILED)


def test_a_failed_stage_elsewhere_is_not_the_trainers() -> None:
    trainer = training()(formed(1, "0@0"), e.StageFailed("scorer", None, "", 0))
    assert isinstance(trainer.next(), Train)


def test_nothing_is_done_after_the_end() -> None:
    """Case 21: a resume of a finished run takes no step."""
    trainer = training()(e.RunClosing(Outcome.COMPLETED, "", 0), e.RunFinished(Outcome.COMPLETED, 2, 0))
    assert (trainer.next(), trainer.next(joined=False)) == (None, None)


def test_a_step_taken_and_not_committed_is_taken_again_and_once_in_the_ledger() -> None:
    """Case 21 (b): killed after the files of the last batch are written and before its transaction."""
    trainer = training(steps=1)(formed(1, "0@0"))
    assert trainer.next() == Train(1, False, 1, (1,))
    again = trainer.again()
    assert again.next(joined=False) == TakeOver(Policy(0, "checkpoint-0", "hash 0"), Policy(0, "policy-0", "hash 0"), 2)
    again.does(1, 1)
    assert again.next() is None


@pytest.mark.parametrize(("wanted", "gone"), [(1, False), (2, False), (3, True), (9, True)])
def test_a_policy_may_go_when_a_group_asks_for_two_versions_more(wanted: int, gone: bool) -> None:
    trainer = training()(opened("0@0", min_version=wanted))
    assert disposable(trainer.book, 1, "policy-1") is gone


def test_a_policy_that_somebody_names_stays() -> None:
    trainer = training()(opened("0@0", min_version=9))
    assert not disposable(trainer.book, 0, "policy-0")  # published last
    assert not disposable(trainer.book, 0, "checkpoint-0")
    trainer(trained_on(1, 1))
    assert disposable(trainer.book, 0, "policy-0")
    trainer(e.EvaluationStarted(EVAL, 1, 1, 0))
    assert not disposable(trainer.book, 0, "policy-0")
    trainer(e.EvaluationFinished(EVAL, 1, 1, 1, 0, 0, 1.0, False, 0))
    assert disposable(trainer.book, 0, "policy-0")


def test_a_book_of_many_batches_stays_small() -> None:
    trainer = training(payload_budget=LARGE, steps=1000)
    for batch in range(1, 301):
        trainer(formed(batch, f"{batch}@0"))
        trainer.does(batch, *((batch - 1, batch) if batch % 2 == 0 else ()))
    assert len(trainer.book.pending) == 0
