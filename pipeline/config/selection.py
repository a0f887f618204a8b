"""How groups of a window are selected before they make a batch; a run has one way at most (docs/filters.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pipeline.config.values import Plugin, Section
from pipeline.domain.selection.rules import Keep, Metric, Mode, SelectionRules, Strategy
from pipeline.domain.selection.weights import Rescale

DEFAULT_TYPE = "ranked"
DEFAULTS = SelectionRules()
Window = Annotated[int, Field(ge=1, le=10**9)]


class Windows(Section):
    """What every selection has: `window`, the accepted groups that are looked at together (default: the batch size);
    `refill`, whether batches are filled from windows after it; what is done to the loss; and when to stop."""

    window: Window | None = None
    refill: bool = True
    loss_rescale: Rescale = "none"
    variance_stop: bool = True


class Ranked(Windows):
    """Ranks the groups of a window by `metric` and keeps some from one end. With `weights: soft` each group counts by
    its deviation over the batch's largest."""

    type: Literal["ranked"]
    strategy: Strategy = DEFAULTS.strategy
    value: float = DEFAULTS.value
    metric: Metric = DEFAULTS.metric
    keep: Keep = DEFAULTS.keep
    mode: Mode = DEFAULTS.mode
    eps: float = DEFAULTS.eps
    include_zero: bool = DEFAULTS.include_zero
    weights: Literal["none", "soft"] = "none"

    def rules(self) -> SelectionRules:
        """The same for the functions that select."""
        return SelectionRules(
            self.strategy, self.value, self.metric, self.keep, self.mode, self.eps, self.include_zero
        )  # fmt: skip


class CustomSelection(Plugin, Windows):
    """Keeps what a callable of the user's own names. `on_error`: what an exception in it decides."""

    type: Literal["custom"]
    on_error: Literal["reject", "keep", "raise"] = "reject"


def _typed(value: Any) -> Any:
    return {"type": DEFAULT_TYPE, **value} if isinstance(value, dict) else value


Selection = Annotated[
    Annotated[Ranked | CustomSelection, Field(discriminator="type")],
    BeforeValidator(_typed),
]
"""A section without a `type` is of type `ranked`."""
