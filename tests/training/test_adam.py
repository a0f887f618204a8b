"""Our Adam against torch's."""

import pytest
import torch

from pipeline.training.adam import Adam


def test_it_moves_as_torchs_own_does() -> None:
    random = torch.Generator().manual_seed(0)
    start = [torch.randn(5, 3, generator=random), torch.randn(4, generator=random)]
    ours, theirs = ([part.clone().requires_grad_() for part in start] for _ in range(2))
    adam = Adam(ours)
    reference = torch.optim.AdamW(theirs, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)
    for _ in range(20):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=random)
            other.grad = one.grad.clone()
        adam.step(3e-3)
        reference.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert adam.steps == 20 and all(one.grad is None for one in ours)


def test_a_state_of_other_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="other parameters"):
        Adam([torch.zeros(3)]).restore(Adam([torch.zeros(2)]).state())
