"""The trainer's shell around its book: read the ledger, act, commit events and position together; or crash."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
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
from pipeline.domain.vocabulary import ReturnReason

from .world import World


@dataclass(frozen=True, slots=True)
class Committed:
    """The offset and its metadata, as the consumer group keeps them."""

    offset: int = 0
    steps: int = 0
    saved_at: int = -1
    published_at: int = -1
    incarnation: int = 0


class Trainer:
    """Weights are the list of batches that they were trained on; a checkpoint is a copy of it under a path."""

    name = "trainer"

    def __init__(self, world: World) -> None:
        self.world = world
        self.input = world.log.topics[Topic.LEDGER][0]
        self.committed = Committed()
        self.checkpoints: dict[str, tuple[int, ...]] = {}
        self.files = 0
        self.has_failed = False
        self._start()

    def _start(self) -> None:
        c = self.committed
        self.book = Book(steps_done=c.steps, incarnation=c.incarnation)
        if c.saved_at >= 0:
            self.book.saved, self.book.saved_offset = self._policy_at(c.saved_at), c.saved_at
        if c.published_at >= 0:
            self.book.published, self.book.published_offset = self._policy_at(c.published_at), c.published_at
        self.next = c.offset
        self.behind = len(self.input)
        self.joined = False
        self.weights: tuple[int, ...] = ()

    def _policy_at(self, offset: int) -> Policy:
        event = self.input[offset].event
        assert isinstance(event, e.CheckpointSaved | e.BatchTrained | e.TrainerStarted)
        return Policy(event.version, event.path, event.sha256)

    def crash(self) -> None:
        self._start()

    def ready(self) -> bool:
        return self.next < len(self.input) or next_action(self.book, self.world.rules, self.joined) is not None

    def turn(self) -> None:
        upto = min(len(self.input), max(self.behind, self.next + self.world.rng.randint(0, 8)))
        self._read(upto)
        action = next_action(self.book, self.world.rules, self.joined)
        if self.world.crashes(self, "before acting"):
            return
        if action is None:
            self._commit([])
        else:
            self._act(action)
        if self.world.crashes(self, "after its transaction"):
            return
        self._dispose()

    def _read(self, upto: int) -> None:
        for offset in range(self.next, upto):
            note(self.book, self.input[offset].event, offset)
        self.next = max(self.next, upto)

    def _act(self, action: Action) -> None:
        at = self.world.now
        match action:
            case Begin():
                saved, policy = self._write((), 0), self._export(0)
                started = e.TrainerStarted(1, 0, policy.path, policy.sha256, "sim", at)
                if self._commit([e.CheckpointSaved(0, saved.path, saved.sha256, (), at), started]):
                    self.joined, self.weights = True, ()
            case TakeOver():
                p = action.published
                if self._commit([e.TrainerStarted(action.incarnation, p.version, p.path, p.sha256, "sim", at)]):
                    self.joined, self.weights = True, self.checkpoints[action.checkpoint.path]
            case GiveBack():
                trained = self.book.pending[action.batch].trained
                self._commit([e.BatchReturned(action.batch, action.reason, trained, (), None, at)])
            case Save():
                version = self.book.published.version if self.book.published else 0
                saved = self._write(self.weights, version)
                self._commit([e.CheckpointSaved(saved.version, saved.path, saved.sha256, action.batches, at)])
            case Train():
                self._train(action, at)

    def _train(self, action: Train, at: int) -> None:
        world = self.world
        pending = self.book.pending[action.batch]
        fails = world.setup.failing == "trainer" and world.turns >= world.setup.fail_at and not self.has_failed
        if fails:
            self.has_failed = self._commit([
                e.StageFailed("trainer", None, "loss is not finite", at),
                e.BatchReturned(action.batch, ReturnReason.FAILED, pending.trained, (), None, at),
            ])  # fmt: skip
            return
        lost = self._lost(pending.formed)
        if lost:
            self._commit([e.BatchReturned(action.batch, ReturnReason.LOST, pending.trained, lost, "gone", at)])
            return
        weights = (*self.weights, action.batch)
        if action.silent:
            self.weights, pending.applied = weights, True
            return
        policy = self._export(action.version)
        events: list[e.Event] = [e.BatchTrained(action.batch, action.version, policy.path, policy.sha256, {}, at)]
        if action.checkpoint:
            saved = self._write(weights, action.version)
            events.insert(0, e.CheckpointSaved(action.version, saved.path, saved.sha256, action.checkpoint, at))
        if world.crashes(self, "with its files written"):
            return
        self.weights, pending.applied = weights, True
        self._commit(events)

    def _lost(self, batch: e.BatchFormed) -> tuple[str, ...]:
        lost: list[str] = []
        for group in batch.groups:
            keys = [m.payload_key for m in self.world.members.decode(group.members) if m.payload_key]
            gone = [k for k in keys if k not in self.world.payloads.keys]
            for key in gone:
                if key not in self.world.payloads.lost:
                    self.world.violation(f"I4 payload {key} was dropped, but batch {batch.batch} still needs it")
            if gone:
                lost.append(group.group_id)
        return tuple(lost)

    def _commit(self, events: list[e.Event]) -> bool:
        """Events and position in one transaction; then the trainer's own records are read."""
        if self.world.crashes(self, "inside its transaction"):
            return False
        offset, steps = position(self.book, self.next)
        self.committed = Committed(
            offset, steps, self.book.saved_offset, self.book.published_offset, self.book.incarnation
        )
        self.world.log.facts(Topic.LEDGER, 0, events, "trainer")
        if events:
            self._read(len(self.input))
        return True

    def _write(self, weights: tuple[int, ...], version: int) -> Policy:
        self.files += 1
        path = f"checkpoint-{version}-{self.files}"
        self.checkpoints[path] = weights
        return Policy(version, path, f"hash of {path}")

    def _export(self, version: int) -> Policy:
        self.files += 1
        path = f"policy-{version}-{self.files}"
        self.world.policies[path] = version
        return Policy(version, path, f"hash of {path}")

    def _dispose(self) -> None:
        if self.joined:
            for path, version in list(self.world.policies.items()):
                if disposable(self.book, version, path):
                    self.world.say(f"   delete {path}")
                    del self.world.policies[path]
