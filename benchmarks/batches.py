"""How fast rows become a batch: groups of eight responses of about 64 KB, on the CPU. `python -m benchmarks.batches`"""

from __future__ import annotations

import argparse
import random
import time
from typing import get_args

import torch

from pipeline.training.advantages import AdvantageConfig
from pipeline.training.batches import Layout, Row, build

GROUP_SIZE = 8
BYTES_PER_TOKEN = 9
"""int32 id, float32 log-probability, uint8 mask."""


def rows(groups: int, payload_bytes: int) -> list[Row]:
    """Responses of 90 to 100 % of the size, and prompts of a tenth."""
    rng, made = random.Random(0), []
    for index in range(groups * GROUP_SIZE):
        tokens = int(payload_bytes / BYTES_PER_TOKEN * rng.uniform(0.9, 1.0))
        ids, logprobs, mask = rng.randbytes(4 * tokens), bytes(4 * tokens), b"\1" * tokens
        made.append(Row(bytes(4 * (tokens // 10)), ids, logprobs, mask, rng.random(), index // GROUP_SIZE, (0, 0)))
    return made


def main() -> None:
    """Print groups a CPU second for each layout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--payload-bytes", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = rows(given.groups, given.payload_bytes)
    for layout in get_args(Layout):
        times = []
        for _ in range(given.rounds):
            started = time.process_time()
            build(made, pad_id=0, device="cpu", layout=layout, advantage=AdvantageConfig())
            times.append(time.process_time() - started)
        median = sorted(times)[len(times) // 2]
        print(
            f"{layout}: {given.groups / median:,.0f} groups a CPU second, {median / given.groups * 1e3:.3f} ms a group"
        )


if __name__ == "__main__":
    main()
