"""The demo's learner: its checkpoints, its warm start, its limits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.sdk import Learner
from pipeline.training.aggregation import AggregationConfig
from pipeline.training.batches import SKIPPED, Batch, Row
from pipeline.training.correction import CorrectionConfig, Filter
from pipeline.training.settings import StepSettings
from pipeline.training.sorting import SortingLearner

QUICK: dict[str, Any] = {"warm_start_accuracy": 0.0}


def saved(learner: SortingLearner, path: Path) -> dict[str, Any]:
    learner.save(path)
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in value for leaf in [key, *leaves(value[key])]]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


def assert_same_bits(one: Any, other: Any) -> None:
    for a, b in zip(leaves(one), leaves(other), strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_training_on_from_a_checkpoint_equals_never_having_stopped(tmp_path: Path, rows: list[Row], make: Any) -> None:
    batches = [make(rows[first : first + 8]) for first in (0, 4, 0, 4, 0, 4)]
    straight = SortingLearner(3, QUICK)
    metrics = [straight.train(batch) for batch in batches]
    first = SortingLearner(3, QUICK)
    for batch in batches[:3]:
        first.train(batch)
    first.save(tmp_path / "checkpoint")
    second = SortingLearner(99, QUICK)
    second.load(tmp_path / "checkpoint")
    assert [second.train(batch) for batch in batches[3:]] == metrics[3:]
    assert_same_bits(saved(second, tmp_path / "second"), saved(straight, tmp_path / "straight"))


def test_the_warm_start_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    options = {"warm_start_accuracy": 0.01}
    for name, seed in (("one", 5), ("two", 5), ("other", 6)):
        SortingLearner(seed, options).export(tmp_path / name)
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two != other


def test_metrics_are_finite_numbers(batch: Batch) -> None:
    metrics = SortingLearner(1, QUICK).train(batch)
    own = {"loss", "ratio", "clip_fraction", "kl", "grad_norm", "response_tokens"}
    assert set(metrics) == own | {"loss_divisor_tokens", "loss_scale"}
    assert all(type(value) is float and abs(value) < float("inf") for value in metrics.values())


WIDE = Filter("segment", ratio_high=1e9, ratio_low=0.0)
NARROW = Filter("token", ratio_low=0.12, ratio_high=1.0)


@pytest.mark.parametrize("correction", [None, CorrectionConfig((WIDE,), "sequence", weight_upper=2.0)])
def test_micro_batches_add_up_to_the_whole_step(
    correction: CorrectionConfig | None, rows: list[Row], make: Any, tmp_path: Path
) -> None:
    aggregation = AggregationConfig("seq-mean-token-mean", "roll")
    batch = make(rows, settings=StepSettings(correction, aggregation if correction else AggregationConfig()))
    for name, tokens in (("whole", 10_000), ("parts", 20)):
        learner = SortingLearner(1, {**QUICK, "micro_batch_tokens": tokens})
        learner.train(batch)
        learner.export(tmp_path / name)
    whole, parts = (torch.load(tmp_path / name, weights_only=True) for name in ("whole", "parts"))
    for name, weights in whole.items():
        torch.testing.assert_close(parts[name], weights, rtol=0, atol=2e-4)


def test_a_correction_is_applied_and_measured(rows: list[Row], make: Any) -> None:
    batch = make(rows, settings=StepSettings(CorrectionConfig((WIDE, NARROW), "token")))
    metrics = SortingLearner(1, QUICK).train(batch)
    assert metrics["correction_kept_0_segment_ratio"] == 1.0
    assert 0.0 < metrics["correction_kept_1_token_ratio"] == metrics["correction_kept"] < 1.0
    assert metrics["response_tokens"] == metrics["loss_divisor_tokens"] == round(metrics["correction_kept"] * 52)
    assert metrics["ratio"] == pytest.approx(1.0) and 0.0 <= metrics["correction_weight"] <= 1.2
    assert all(type(value) is float and abs(value) < float("inf") for value in metrics.values())


def test_a_step_that_a_correction_leaves_nothing_of_is_skipped_bit_for_bit(
    rows: list[Row], make: Any, tmp_path: Path
) -> None:
    learner = SortingLearner(1, QUICK)
    learner.train(make(rows))
    before = saved(learner, tmp_path / "before")
    nothing = CorrectionConfig((Filter("sequence", ratio_low=1e30, ratio_high=1e31),))
    metrics = learner.train(make(rows, settings=StepSettings(nothing)))
    assert metrics[SKIPPED] == 1.0 and metrics["correction_kept"] == 0.0 and "loss" not in metrics
    assert_same_bits(saved(learner, tmp_path / "after"), before)


def test_files_are_never_overwritten(tmp_path: Path) -> None:
    learner = SortingLearner(1, QUICK)
    learner.save(tmp_path / "file")
    for write in (learner.save, learner.export):
        with pytest.raises(FileExistsError):
            write(tmp_path / "file")


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    torch.save({"format": 2}, tmp_path / "newer")
    with pytest.raises(ValueError, match="format 2"):
        SortingLearner(1, QUICK).load(tmp_path / "newer")


def test_a_packed_batch_is_refused(rows: list[Row], make: Any) -> None:
    with pytest.raises(ValueError, match="padded"):
        SortingLearner(1, QUICK).train(make(rows, "packed"))


def test_a_gradient_that_is_not_finite_stops_the_learner(rows: list[Row], make: Any, tmp_path: Path) -> None:
    learner, batch = SortingLearner(1, QUICK), make(rows)
    learner.export(tmp_path / "before")
    with pytest.raises(FloatingPointError, match="step 0"):
        learner.train(replace(batch, advantages=batch.advantages * float("inf")))
    learner.export(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="learning_rate"):
        SortingLearner(1, {"learning_rate": 1.0})


def test_it_is_a_learner_as_the_port_has_it() -> None:
    learner: Learner = SortingLearner(1, QUICK)
    assert (learner.device, learner.layout, learner.pad_id) == ("cpu", "padded", 0)
