"""What a selection does to the loss: a scale for the batch, or a weight for each group instead of a selection."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Literal

Rescale = Literal["none", "linear", "sqrt"]


def loss_scale(rescale: Rescale, kept_ratio: float) -> float:
    """The factor on the advantages of a batch whose window kept this share of its groups. ValueError if unknown."""
    match rescale:
        case "none":
            return 1.0
        case "linear":
            return kept_ratio
        case "sqrt":
            return sqrt(kept_ratio)
    raise ValueError(f"unknown loss rescale {rescale!r}")


def soft_weights(stds: Sequence[float]) -> list[float]:
    """A weight for each group: its reward std over (the largest + 1e-6). ValueError for one that is not finite."""
    if not all(map(isfinite, stds)):
        raise ValueError(f"a deviation is not finite: {list(stds)}")
    top = max(stds, default=0.0) + 1e-6
    return [std / top for std in stds]
