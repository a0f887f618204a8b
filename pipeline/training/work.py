"""The trainer's slow work, one action at a time in a thread of its own."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.domain import training as book
from pipeline.domain.told import told, told_error
from pipeline.domain.topology import MembersCodec
from pipeline.domain.training import Action, Book, Policy
from pipeline.sdk import Learner
from pipeline.store.errors import StoreUnreachable
from pipeline.store.payloads import PayloadStore
from pipeline.training.advantages import AdvantageConfig
from pipeline.training.batches import SKIPPED, Batch, Row, build
from pipeline.training.files import FileMissing, RunFiles
from pipeline.training.pull import Lost, pull
from pipeline.training.settings import StepSettings


@dataclass(frozen=True, slots=True)
class Done:
    """What an action came to: files and metrics, or groups whose payloads are lost, or a failure of the learner."""

    action: Action
    policy: Policy | None = None
    checkpoint: Policy | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    detail: str | None = None
    failure: str | None = None


@dataclass(slots=True)
class Work:
    """What the actions need. Only the trainer's worker thread calls `do`. `start`: the checkpoint that the run begins
    with, if it was forked from another."""

    learner: Learner
    store: PayloadStore
    members: MembersCodec
    files: RunFiles
    advantage: AdvantageConfig
    settings: StepSettings = field(default_factory=StepSettings)
    start: Policy | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Give up waiting for Redis."""
        self._stopping.set()

    def do(self, action: Action, state: Book) -> Done:
        """Carry an action out. Nothing is raised: what went wrong is in the result."""
        try:
            match action:
                case book.Begin():
                    return self._begin(action)
                case book.TakeOver():
                    return self._take_over(action)
                case book.Train():
                    return self._train(action, state)
                case book.Save():
                    version = state.published.version if state.published else 0
                    return Done(action, checkpoint=self._checkpoint(version, state.incarnation))
                case book.GiveBack():
                    return Done(action)
        except Lost as lost:
            return Done(action, lost=lost.groups, detail=str(lost))
        except FileMissing as missing:
            return Done(action, failure=str(missing))
        except Exception as error:  # the learner is the user's code: any failure of it ends the run in order
            return Done(action, failure=told_error(error))

    def _begin(self, action: book.Begin) -> Done:
        if self.start is not None:
            self._load(self.start)
        checkpoint = self._checkpoint(0, 1)
        return Done(action, policy=self._policy(0, 1), checkpoint=checkpoint)

    def _take_over(self, action: book.TakeOver) -> Done:
        self._load(action.checkpoint)
        return Done(action, policy=action.published)

    def _load(self, checkpoint: Policy) -> None:
        """Have the learner load a checkpoint that the ledger names. Raises FileMissing."""
        path = self.files.checked(checkpoint)
        try:
            self.learner.load(path)
        except Exception as error:
            raise FileMissing(
                f"{path} (version {checkpoint.version}) is the file that the ledger names, but "
                f"{type(self.learner).__name__} can't load it: {told_error(error)}; run the code that "
                "wrote it, or start a new run"
            ) from error

    def _train(self, action: book.Train, state: Book) -> Done:
        pending = state.pending[action.batch]
        batch = build(
            self._pull(pending),
            pad_id=self.learner.pad_id,
            device=self.learner.device,
            layout=self.learner.layout,
            advantage=self.advantage,
            loss_scale=pending.formed.loss_scale,
            settings=self.settings,
        )
        metrics = {SKIPPED: 1.0, **batch.metrics} if batch.empty else self._learned(batch)
        if action.silent:
            return Done(action, metrics=metrics)
        policy = self._policy(action.version, state.incarnation)
        checkpoint = self._checkpoint(action.version, state.incarnation) if action.checkpoint else None
        return Done(action, policy=policy, checkpoint=checkpoint, metrics=metrics)

    def _learned(self, batch: Batch) -> dict[str, float]:
        """Have the learner take its step. Raises ValueError where it leaves out what the run asks for, or where a
        metric is no finite number: its weights are then not to be published."""
        found: Mapping[str, float] = self.learner.train(batch)
        metrics = {told(name): float(value) for name, value in found.items()}
        metrics |= {name: value for name, value in batch.metrics.items() if name not in metrics}
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise ValueError(f"the learner's metric {name!r} is {value}; expected a finite number")
        settings, learner = self.settings, type(self.learner).__name__
        for section, asked, wanted in (
            ("correction", settings.correction is not None, "correction_kept"),
            ("loss", settings.loss_is_set and SKIPPED not in metrics, "clip_fraction"),
        ):
            if asked and wanted not in metrics:
                raise ValueError(
                    f"the configuration has a section {section}, but {learner} returns no metric {wanted!r}: have its "
                    "step call pipeline.training.losses.objective, and return what that and the batch have measured"
                )
        return metrics

    def _pull(self, pending: book.Pending) -> list[Row]:
        """The rows; a Redis that doesn't answer is waited for."""
        while True:
            try:
                return pull(self.store, self.members, pending.formed.groups)
            except StoreUnreachable:
                self.store.wait_until_answers(float("inf"), self._stopping.is_set)
                if self._stopping.is_set():
                    raise

    def _policy(self, version: int, incarnation: int) -> Policy:
        return self.files.write("policies", version, incarnation, self.learner.export)

    def _checkpoint(self, version: int, incarnation: int) -> Policy:
        return self.files.write("checkpoints", version, incarnation, self.learner.save)
