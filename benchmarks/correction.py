"""What the train-infer correction costs on the CPU, beside a masked mean over the same numbers.

`python -m benchmarks.correction`. Rows are answers of several turns, with an environment's tokens between them.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import torch
from torch import Tensor

from pipeline.training.correction import CorrectionConfig, Filter, correct
from pipeline.training.ratios import LEVELS


def made(rows: int, width: int, turn: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of trainer and sampler and a mask, [rows, width]; a quarter of a turn isn't ours."""
    generator = torch.Generator().manual_seed(0)
    train = torch.rand(rows, width, generator=generator).neg_()
    sampler = torch.randn(rows, width, generator=generator).mul_(0.05).add_(train)
    starts = torch.randint(0, turn, (rows, 1), generator=generator)
    return train, sampler, (torch.arange(width) + starts) % turn >= turn // 4


def masked_mean(train: Tensor, sampler: Tensor, mask: Tensor) -> float:
    """The plainest thing that reads the same numbers: the mean of the log-ratio over the mask."""
    return float(torch.where(mask, train - sampler, 0.0).sum() / mask.sum())


def measured(work: Callable[[], object], repeat: int) -> float:
    """CPU seconds of the median run, after one to warm up."""
    times = []
    for _ in range(repeat + 1):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return sorted(times[1:])[repeat // 2]


def main() -> None:
    """Print a line for each level, and the highest memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--turn", type=int, default=256)
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=["segment"])
    parser.add_argument("--tokens-at-once", type=int, default=1 << 20)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = made(given.rows, given.width, given.turn)
    plain = measured(lambda: masked_mean(*data), given.repeat)
    print(f"masked mean: {plain:.3f} CPU s for {given.rows} × {given.width} tokens")
    for level in given.levels:
        config = CorrectionConfig((Filter(level, diff=True),), weight_level=level, report=(level,))
        whole = measured(lambda c=config: correct(*data, c, tokens_at_once=given.tokens_at_once), given.repeat)
        print(f"{level}: {whole:.3f} CPU s, {whole / plain:.1f} × the masked mean")
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
