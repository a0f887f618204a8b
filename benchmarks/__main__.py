"""`python -m benchmarks`: the workload of docs/performance.md, beside the raw Redis yardstick in the same run, then the
train-infer correction beside a masked mean. `--sizes` without a size measures the correction alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import pipeline, raw_redis
from pipeline import local
from pipeline.config import load_settings

SIZES = {"4k": 4096, "64k": 65536}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument("--groups", type=int, default=4096, help="groups to sample at 4 KB; a quarter of it at 64 KB")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    console = Console()
    if given.sizes:
        _measure_all(console, given)
    console.print("\nTrain-infer correction, on one thread:", highlight=False)
    # a process of its own: it tells its peak of memory
    subprocess.run([sys.executable, "-m", "benchmarks.correction"], check=True)


def _measure_all(console: Console, given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as folder:
        state = Path(folder)
        services = local.ensure(state, redis_maxmemory=4 << 30, say=lambda text: console.print(text, style="dim"))
        settings = load_settings(
            bootstrap=services.bootstrap, redis_url=services.redis_url, run="any", data_dir=state / "files"
        )
        servers = {"kafka": _listener(services.bootstrap), "redis": _listener(services.redis_url)}
        try:
            for size in given.sizes:
                groups = given.groups if size == "4k" else given.groups // 4
                _measure(console, size, groups, given.repeat, settings, servers, state)
        finally:
            local.down(state, wipe=True)


def _measure(console, size, groups, repeat, settings, servers, state) -> None:  # type: ignore[no-untyped-def]
    url = settings.redis_url.get_secret_value()
    ours, raw = [], []
    for turn in range(repeat + 1):
        result = pipeline.measure(settings, SIZES[size], groups, servers, state / "logs")
        yardstick = raw_redis.measure(url, groups // 2, SIZES[size])
        if turn:
            ours.append(result)
            raw.append(yardstick)
        console.print(
            f"{'warm-up' if not turn else f'run {turn}'}: {size} {result.groups_per_s:.0f} groups/s, "
            f"raw Redis {yardstick:.0f}{'' if result.clean else '  AUDIT NOT CLEAN'}",
            highlight=False,
        )
    speeds = sorted(r.groups_per_s for r in ours)
    best, reference = pipeline.middle(ours), sorted(raw)[len(raw) // 2]
    console.print(
        f"\n{size}: {best.groups_per_s:.0f} groups/s ({speeds[0]:.0f}-{speeds[-1]:.0f}), raw Redis {reference:.0f}, "
        f"ratio {best.groups_per_s / reference:.2f}",
        highlight=False,
    )
    table = Table("process", "CPU s per 1,000 groups", box=None)
    for name, used in sorted(best.cpu.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{used:.2f}")
    table.add_row("all", f"{sum(best.cpu.values()):.2f}")
    console.print(table)


def _listener(address: str) -> int:
    """The process that listens at an address."""
    port = urlsplit(address if "://" in address else f"tcp://{address}").port
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            return connection.pid
    raise RuntimeError(f"no process of this machine listens on port {port}")


if __name__ == "__main__":
    main()
