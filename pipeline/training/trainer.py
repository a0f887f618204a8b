"""The trainer: does what its book says, one action at a time, and commits each with the offset that fences it.

Slow work (pulling payloads, the optimizer step, writing files) runs in one worker thread, while the main thread goes on
reading the ledger: no transaction is open meanwhile, and a rebalance is noticed. What the trainer wrote counts when it
reads it back, like everybody else's records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog

from pipeline.domain import events as e
from pipeline.domain import training as book
from pipeline.domain.rules import Rules
from pipeline.domain.training import Book, Policy
from pipeline.domain.vocabulary import ReturnReason
from pipeline.health import Standing
from pipeline.log.errors import Stop
from pipeline.log.seat import Entry, Fact, Position, Seat
from pipeline.training.work import Done, Work

log = structlog.get_logger(__name__)

IDLE_COMMIT_S = 1.0
IDLE_S = 0.05
WAIT_S = 0.005


@dataclass(slots=True)
class Trainer:
    """One process's trainer. `slot` names it in TrainerStarted."""

    rules: Rules
    seat: Seat
    work: Work
    slot: str
    heartbeat: Callable[[Standing], None] = lambda standing: None
    _book: Book = field(default_factory=Book)
    _turn: int = 0
    _joined: int = 0
    _next_offset: int = 0
    _awaited: int = 0
    _committed: Position | None = None
    _committed_at: float = 0.0
    _running: Future[Done] | None = None
    _pruned: int = 0
    _behind_since: float | None = None
    _executor: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "learner"))

    def serve(self, should_stop: Callable[[], bool], until_finished: bool = False) -> int:
        """Train until told to stop, or until the run is finished. Returns the exit code."""
        try:
            while not should_stop():
                self.heartbeat(self.seat.standing(self._behind_since))
                entries = self.seat.poll(self._patience())
                if self.seat.turn != self._turn:
                    self._take_seat()
                for entry in entries:
                    self._note(entry)
                if self._turn:
                    self._act()
                self._behind_since = (self._behind_since or time.monotonic()) if self._is_behind() else None
                if until_finished and self._book.finished:
                    return 0
            return 0
        finally:
            self.work.stop()
            self._executor.shutdown(wait=True, cancel_futures=True)

    def _patience(self) -> float:
        """How long to wait for records: hardly, while something is under way whose end is to be noticed at once."""
        return WAIT_S if self._running is not None or self._awaited else IDLE_S

    def _is_behind(self) -> bool:
        """Whether something could be committed, or what was written has not come back. While an action is under way
        neither is so: a step takes as long as it takes."""
        if not self._turn or self._running is not None:
            return False
        return self._awaited > 0 or (self._joined > 0 and self._position() != self._committed)

    def _take_seat(self) -> None:
        """Fold the ledger from where the last trainer stood; forget what this process did in an earlier turn."""
        self._turn = self.seat.turn
        self._book, self._joined, self._awaited, self._next_offset = Book(), 0, 0, 0
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if not self._turn:
            return
        restored = self.seat.restore()
        if restored is None:
            self._turn = 0
            return
        position, entries = restored
        self._book.steps_done = position.notes.get("steps", 0)
        self._book.incarnation = position.notes.get("incarnation", 0)
        saved, published = position.notes.get("saved", -1), position.notes.get("published", -1)
        if saved >= 0:
            self._book.saved, self._book.saved_offset = _policy(self.seat.at(saved)), saved
        if published >= 0:
            self._book.published, self._book.published_offset = _policy(self.seat.at(published)), published
        self._next_offset, self._committed = position.offset, position
        for entry in entries:
            self._note(entry)
        log.info("trainer has the ledger", offset=position.offset, steps=self._book.steps_done)

    def _note(self, entry: Entry) -> None:
        if entry.offset < self._next_offset:
            return
        self._next_offset = entry.offset + 1
        book.note(self._book, entry.event, entry.offset)
        match entry.event:
            case e.TrainerStarted() | e.BatchTrained() | e.CheckpointSaved() | e.BatchReturned():
                self._awaited = max(0, self._awaited - 1)
            case e.GroupOpened(min_version=wanted) if wanted > self._pruned:
                self._pruned = wanted
                self.work.files.prune_policies(lambda version, path: book.disposable(self._book, version, path))
            case _:
                return

    # --------------------------------------------------------------------------------------------------------- acting

    def _act(self) -> None:
        if self._running is not None:
            if self._running.done():
                done, self._running = self._running.result(), None
                self._finish(done)
            return
        if self._awaited:
            return
        action = book.next_action(self._book, self.rules, joined=self._joined > 0)
        match action:
            case None:
                self._commit_when_idle()
            case book.GiveBack():
                self._give_back(action.batch, action.reason, (), None)
            case _:
                self._running = self._executor.submit(self.work.do, action, self._book)

    def _finish(self, done: Done) -> None:
        """Commit what an action came to."""
        at = self.seat.now_ms()
        match done.action:
            case book.Begin() | book.TakeOver():
                self._start(done, at)
            case book.Train(batch=number) if done.lost:
                self._give_back(number, ReturnReason.LOST, done.lost, done.detail)
            case _ if done.failure is not None:
                failed = e.StageFailed("trainer", None, done.failure, at)
                self._book.failed = True
                self._commit([Fact(failed, f"trainer-failure/{self.slot}/{at}")])
            case book.Train(batch=number, silent=silent, checkpoint=covers):
                self._book.pending[number].applied = True
                if not silent:
                    self._trained(number, covers, done, at)
            case book.Save(batches=batches):
                saved = _written(done.checkpoint)
                fact = e.CheckpointSaved(saved.version, saved.path, saved.sha256, batches, at)
                self._commit([Fact(fact, self._cause(batches[-1], 2))])

    def _start(self, done: Done, at: int) -> None:
        if done.failure is not None:
            raise Stop(f"the trainer can't start: {done.failure}")
        self._joined = self._book.incarnation + 1
        cause = f"trainer/{self.slot}/{self._joined}"
        published = _written(done.policy)
        facts = []
        if done.checkpoint is not None:
            saved = done.checkpoint
            facts.append(
                Fact(e.CheckpointSaved(saved.version, saved.path, saved.sha256, (), at), f"{cause}-checkpoint")
            )
        started = e.TrainerStarted(self._joined, published.version, published.path, published.sha256, self.slot, at)
        self._commit([*facts, Fact(started, cause)])

    def _trained(self, number: int, covers: tuple[int, ...], done: Done, at: int) -> None:
        policy, facts = _written(done.policy), []
        if done.checkpoint is not None:
            saved = done.checkpoint
            covered = e.CheckpointSaved(saved.version, saved.path, saved.sha256, covers, at)
            facts.append(Fact(covered, self._cause(number, 0)))
        trained = e.BatchTrained(number, policy.version, policy.path, policy.sha256, done.metrics, at)
        self._commit([*facts, Fact(trained, self._cause(number, 1))])
        log.info("batch trained", batch=number, version=policy.version, saved=bool(facts), **_short(done.metrics))

    def _give_back(self, number: int, reason: ReturnReason, lost: tuple[str, ...], detail: str | None) -> None:
        pending = self._book.pending[number]
        returned = e.BatchReturned(number, reason, pending.trained, lost, detail, self.seat.now_ms())
        log.warning("batch returned", batch=number, reason=reason.value, lost=len(lost), detail=detail)
        self._commit([Fact(returned, self._cause(number, 3))])

    def _cause(self, number: int, index: int) -> str:
        """The batch that a record answers; one index for each kind of answer, so that no cause comes twice."""
        return f"trainer/ledger/0/{self._book.pending[number].offset}/{index}"

    # ------------------------------------------------------------------------------------------------------ committing

    def _position(self) -> Position:
        b = self._book
        offset, steps = book.position(b, self._next_offset)
        notes = {
            "steps": steps,
            "incarnation": max(b.incarnation, self._joined),
            "saved": b.saved_offset,
            "published": b.published_offset,
        }
        return Position(offset, notes)

    def _commit(self, facts: Sequence[Fact]) -> None:
        self._committed, self._committed_at = self._position(), time.monotonic()
        self._awaited += len([f for f in facts if not isinstance(f.event, e.StageFailed)])
        self.seat.commit(facts, self._committed)
        self._behind_since = None

    def _commit_when_idle(self) -> None:
        """Move the offset on, so that a restart has less to read."""
        if time.monotonic() - self._committed_at > IDLE_COMMIT_S:
            self._committed_at = time.monotonic()
            if self._joined and self._position() != self._committed:
                self._commit([])


def _policy(event: e.Event) -> Policy:
    if not isinstance(event, e.CheckpointSaved | e.BatchTrained | e.TrainerStarted):
        raise TypeError(f"{type(event).__name__} names no policy")
    return Policy(event.version, event.path, event.sha256)


def _written(policy: Policy | None) -> Policy:
    """The file that an action must have written."""
    if policy is None:
        raise TypeError("the action wrote no file")
    return policy


def _short(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in list(metrics.items())[:6]}
