"""The trainer's actions on a real Redis: what is refused, what is skipped, and what each failure says."""

from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.domain import events as e
from pipeline.domain import training as book
from pipeline.domain.training import Book, Pending, Policy
from pipeline.local import Services
from pipeline.log.codec import Members
from pipeline.store.format import Array, Payload, encode
from pipeline.store.keys import fresh_key
from pipeline.store.payloads import PayloadStore
from pipeline.training.advantages import AdvantageConfig
from pipeline.training.batches import SKIPPED, Batch
from pipeline.training.correction import CorrectionConfig
from pipeline.training.files import RunFiles
from pipeline.training.losses import objective
from pipeline.training.sample_masks import SampleMaskConfig
from pipeline.training.settings import StepSettings
from pipeline.training.work import Done, Work
from tests.domain.given import member

pytestmark = pytest.mark.contract
GROUP = "3@0"


class Scripted:
    """A learner that remembers what it was shown and answers as told."""

    device, layout, pad_id = "cpu", "packed", 0

    def __init__(self, answer: Callable[[Batch], Mapping[str, float]]) -> None:
        self.answer, self.shown = answer, list[Batch]()

    def load(self, path: Path) -> None:
        raise ValueError("it has format 2, this learner reads 1")

    def save(self, path: Path) -> None:
        path.write_text(f"saved {len(self.shown)}")

    def export(self, path: Path) -> None:
        path.write_text(f"weights {len(self.shown)}")

    def train(self, batch: Batch) -> Mapping[str, float]:
        self.shown.append(batch)
        return self.answer(batch)


class Rig:
    """A batch of one group of two in Redis, and what works on it."""

    def __init__(self, store: PayloadStore, folder: Path) -> None:
        self.store, self.folder, self.members = store, folder, Members()

    def work(self, learner: Scripted, settings: StepSettings) -> Work:
        return Work(learner, self.store, self.members, RunFiles(self.folder), AdvantageConfig(), settings)

    def train(self, learner: Scripted, settings: StepSettings | None = None, bare_slot: int | None = None) -> Done:
        """Train on it; the payload of `bare_slot` has no log-probabilities."""
        members = []
        for slot in range(2):
            logprobs = None if slot == bare_slot else Array("float32", array("f", [-0.5] * 3).tobytes())
            ids = Array("int32", array("i", [1, 2, 3]).tobytes())
            value, _ = encode(Payload(b"", "", ids, ids, logprobs, Array("uint8", b"\1" * 3), ()))
            key = fresh_key(self.store.run, GROUP, slot, 1)
            self.store.put_many([(key, value)], 60_000)
            members.append(member(slot, float(slot), payload_key=key, payload_bytes=len(value)))
        group = e.BatchGroup(GROUP, "a", self.members.encode(tuple(members)), 0.5, 100, 0, 0)
        formed = e.BatchFormed(1, (group,), 1, 2.0, 0, None, 0)
        state = Book(incarnation=1, pending={1: Pending(formed, 7, 0)})
        return self.work(learner, settings or StepSettings()).do(book.Train(1, False, 1, (1,)), state)


@pytest.fixture
def rig(services: Services, run_name: str, tmp_path: Path) -> Any:
    store = PayloadStore(services.redis_url, run_name, max_payload_bytes=10_000)
    yield Rig(store, tmp_path)
    for keys in store.scan():
        store.drop(keys)
    store.close()


def obedient(batch: Batch) -> Mapping[str, float]:
    """A step by the objective."""
    loss, statistics = objective(batch, batch.rollout_logprobs, batch.rollout_logprobs)
    return {"loss": float(loss), **{name: float(value) for name, value in statistics.items()}}


def test_weight_and_scale_of_the_batch_reach_the_advantages(rig: Rig) -> None:
    learner = Scripted(obedient)
    done = rig.train(learner)
    (batch,) = learner.shown
    expected = 0.5 / (0.5**0.5 + 1e-6)
    torch.testing.assert_close(batch.advantages, torch.tensor([-expected, expected]))
    assert done.failure is None and done.metrics["loss_scale"] == 2.0 and done.metrics["loss_divisor_tokens"] == 6.0


@pytest.mark.parametrize("correction", [None, CorrectionConfig()])
def test_missing_log_probabilities_are_an_error_that_names_group_and_slot(
    correction: CorrectionConfig | None, rig: Rig
) -> None:
    done = rig.train(Scripted(obedient), StepSettings(correction), bare_slot=1)
    assert done.failure is not None and "group 3@0, slot 1" in done.failure and not done.lost
    assert "no log-probabilities" in done.failure and "have the engine return" in done.failure


def test_a_step_that_masks_leave_nothing_of_never_reaches_the_learner_and_is_done_all_the_same(rig: Rig) -> None:
    learner = Scripted(obedient)
    masks = SampleMaskConfig(difficulty=True, difficulty_low=0.9)
    done = rig.train(learner, StepSettings(CorrectionConfig(), sample_masks=masks, loss_is_set=True))
    assert learner.shown == [] and done.failure is None
    assert done.metrics[SKIPPED] == 1.0 and done.metrics["samples_kept_difficulty"] == 0.0
    assert done.policy is not None and done.policy.version == 1 and done.checkpoint is not None
    assert (rig.folder / done.policy.path).read_text() == "weights 0"


def test_a_learner_that_reports_a_nan_ends_the_run_and_publishes_nothing(rig: Rig) -> None:
    done = rig.train(Scripted(lambda batch: {"loss": float("nan")}))
    assert done.failure is not None and "metric 'loss' is nan" in done.failure
    assert done.policy is done.checkpoint is None and not list(rig.folder.rglob("*.bin"))


@pytest.mark.parametrize(
    ("settings", "section"),
    [(StepSettings(CorrectionConfig()), "correction"), (StepSettings(loss_is_set=True), "loss")],
)
def test_a_learner_that_leaves_out_what_the_run_asks_for_is_refused(
    settings: StepSettings, section: str, rig: Rig
) -> None:
    done = rig.train(Scripted(lambda batch: {"loss": 1.0}), settings)
    assert done.failure is not None and f"section {section}" in done.failure and "Scripted" in done.failure
    assert "pipeline.training.losses.objective" in done.failure


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "check TAMIS_DATA_DIR"),
        (lambda path: path.write_text("other"), "it was changed or damaged; restore it from a copy"),
        (lambda path: None, "Scripted can't load it: ValueError: it has format 2, this learner reads 1; run the code"),
    ],
)
@pytest.mark.parametrize("action", ["takes over", "begins"])
def test_a_checkpoint_that_cannot_be_loaded_is_named_with_what_is_wrong_and_what_to_do(
    damage: Callable[[Path], object], said: str, action: str, rig: Rig
) -> None:
    work = rig.work(Scripted(obedient), StepSettings())
    work.start = saved = work.files.write("checkpoints", 4, 1, work.learner.save)
    damage(rig.folder / saved.path)
    taken_over = book.TakeOver(saved, Policy(4, "policies/4", ""), 2)
    done = work.do(book.Begin() if action == "begins" else taken_over, Book())
    assert done.failure is not None and saved.path in done.failure and "version 4" in done.failure
    assert said in done.failure
