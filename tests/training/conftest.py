"""Rows and batches for the tests of training."""

import random
from array import array
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pipeline.training.advantages import AdvantageConfig
from pipeline.training.batches import Batch, Layout, Row, build


def ragged(count: int = 12, seed: int = 3) -> list[Row]:
    """Rows of 1 to 6 + 0 to 9 tokens in groups of four; every third one has an environment's tokens in it."""
    rng, rows = random.Random(seed), []
    for index in range(count):
        prompt, response = rng.randint(1, 6), rng.randint(0, 9)
        mask = bytes(rng.randint(0, 1) for _ in range(response)) if index % 3 == 0 else None
        rows.append(
            Row(
                prompt_ids=array("i", rng.choices(range(1, 13), k=prompt)),
                response_ids=array("i", rng.choices(range(1, 13), k=response)),
                logprobs=array("f", [-rng.random() for _ in range(response)]).tobytes(),
                loss_mask=mask,
                reward=rng.random(),
                group=index // 4,
                versions=(index, index + 1),
                weight=1.0 + index // 4,
            )
        )
    return rows


def built(rows: list[Row], layout: Layout = "padded", **options: Any) -> Batch:
    """On the CPU, padded with 0, GRPO, unless told otherwise."""
    given = {"pad_id": 0, "device": "cpu", "advantage": AdvantageConfig(), "loss_scale": 0.5} | options
    return build(rows, layout=layout, **given)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Small tensors and parallel workers: more threads only get in each other's way."""
    torch.set_num_threads(1)


@pytest.fixture
def rows() -> list[Row]:
    """Twelve ragged rows."""
    return ragged()


@pytest.fixture
def batch(rows: list[Row]) -> Batch:
    """These rows, padded."""
    return built(rows)


@pytest.fixture
def make() -> Callable[..., Batch]:
    """`built`, for rows of one's own."""
    return built
