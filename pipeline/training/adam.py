"""Adam (Kingma and Ba 2015) in its plain form. Making an optimizer of `torch.optim` imports the compiler that torch
brings, which costs seconds and 90 MB a process: too much for a model of this size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

FAST, SLOW, EPS = 0.9, 0.98, 1e-8


class Adam:
    """Moments of the gradients of some parameters, and the number of steps so far. No weight decay."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self._first = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._second = [torch.zeros_like(parameter) for parameter in self._parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Move every parameter by its gradient, and forget the gradients."""
        self.steps += 1
        size = lr / (1 - FAST**self.steps)
        for parameter, first, second in zip(self._parameters, self._first, self._second, strict=True):
            if parameter.grad is None:
                raise ValueError("a parameter has no gradient")
            first.lerp_(parameter.grad, 1 - FAST)
            second.mul_(SLOW).addcmul_(parameter.grad, parameter.grad, value=1 - SLOW)
            spread = second.div(1 - SLOW**self.steps).sqrt_().add_(EPS)
            parameter.addcdiv_(first, spread, value=-size)
            parameter.grad = None

    def state(self) -> dict[str, Any]:
        """Tensors and numbers alone; `restore` takes it."""
        return {"steps": self.steps, "first": self._first, "second": self._second}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken. Raises ValueError for other parameters."""
        if [m.shape for m in state["first"]] != [m.shape for m in self._first]:
            raise ValueError("the optimizer's state is of other parameters")
        self.steps, self._first, self._second = state["steps"], list(state["first"]), list(state["second"])
