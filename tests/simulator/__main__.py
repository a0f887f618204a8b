"""python -m tests.simulator --seed N [--config NAME] [--quiet]: run one schedule again, with a readable trace."""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

from .settings import DRAWN, NAMED
from .simulation import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=1, help="how many seeds, from --seed on, without a trace if many")
    parser.add_argument("--config", choices=[*DRAWN, *NAMED], default="drawn", help="default: drawn from the seed")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--first", action="store_true", help="stop at the first bad one")
    args = parser.parse_args()
    bad = 0
    start = perf_counter()
    for seed in range(args.seed, args.seed + args.count):
        trace = None if args.quiet or args.count > 1 else print
        result = simulate(args.config, seed, trace)
        if result.problems:
            bad += 1
            print(f"seed {seed}: {result.report()}")
            if args.first:
                break
    world = result.world
    print(
        f"{args.count} schedules, {bad} bad, {perf_counter() - start:.1f} s; the last: {world.log.count()} records, "
        f"{len(world.ledger.groups)} groups, {world.crashes_seen} crashes, {world.turns} turns"
    )
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
