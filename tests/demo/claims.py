"""What the README claims of the demo, asked of whole demos: `python -m tests.demo.claims`. About three minutes a seed
on two free cores. Exit code 1 unless every claim holds for every seed. Not a part of `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A number of a demo's summary, as it is shown, and what it must be."""

    title: str
    shown: Callable[[Summary], str]
    holds: Callable[[Summary], bool]


def zero_variance(summary: Summary) -> float:
    """The share of training groups that were rejected since all of their rewards were the same."""
    rejected = sum(many for name, many in summary["rejected"].items() if name.startswith("zero_std"))
    return float(rejected / (summary["accepted"] + sum(summary["rejected"].values())))


def broken(summary: Summary) -> float:
    """The share of training groups that were rejected since an episode of theirs broke."""
    return float(summary["rejected"].get("drop_flag", 0) / (summary["accepted"] + sum(summary["rejected"].values())))


ALWAYS = (
    Claim("training ≤ 180 s", lambda s: f"{s['training_seconds']:.0f} s", lambda s: s["training_seconds"] <= 180),
    Claim("zero variance ≥ 1/5", lambda s: f"{zero_variance(s):.1%}", lambda s: zero_variance(s) >= 0.2),
    Claim("audit clean", lambda s: str(s["audit"])[:40], lambda s: s["audit"] == "clean"),
    Claim("keys left 0", lambda s: str(s["keys_left"]), lambda s: s["keys_left"] == 0),
)
SORTING = (
    Claim("before ≤ 40 %", lambda s: f"{s['accuracy_before']:.1%}", lambda s: s["accuracy_before"] <= 0.4),
    Claim(
        "after ≥ 60 %, ≥ 2 × before",
        lambda s: f"{s['accuracy_after']:.1%}",
        lambda s: s["accuracy_after"] >= max(0.6, 2 * s["accuracy_before"]),
    ),
    *ALWAYS,
)
WALK = (
    Claim("before ≤ 20 %", lambda s: f"{s['accuracy_before']:.1%}", lambda s: s["accuracy_before"] <= 0.2),
    Claim(
        "after ≥ 50 %, ≥ 1.5 × before",
        lambda s: f"{s['accuracy_after']:.1%}",
        lambda s: s["accuracy_after"] >= max(0.5, 1.5 * s["accuracy_before"]),
    ),
    Claim("broken ≥ 1/50", lambda s: f"{broken(s):.1%}", lambda s: broken(s) >= 0.02),
    *ALWAYS,
)
CLAIMS = {"sorting": SORTING, "walk": WALK}


def summary_of(task: str, seed: int, steps: int | None, folder: Path) -> Summary:
    """Run the demo, visibly, and read what it came to."""
    path = folder / f"{seed}.json"
    command = [sys.executable, "-m", "pipeline.cli", "demo", "--task", task, "--seed", str(seed), "--json", str(path)]
    subprocess.run(command + ([] if steps is None else ["--steps", str(steps)]), cwd=ROOT, check=False)
    if not path.exists():
        raise SystemExit(f"the demo of seed {seed} came to no end; `tamis demo --resume` goes on with it")
    found: Summary = json.loads(path.read_text())
    return found


def main() -> int:
    """Ask them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=CLAIMS, default="sorting", help="what the demos learn")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="fewer steps, to try this program; the claims are about the default")
    options = parser.parse_args()
    os.environ.setdefault("TAMIS_STATE", str(ROOT / ".tamis"))
    with tempfile.TemporaryDirectory() as folder:
        summaries = {seed: summary_of(options.task, seed, options.steps, Path(folder)) for seed in options.seeds}
    claims = CLAIMS[options.task]
    table = Table("seed", *(claim.title for claim in claims))
    for seed, summary in summaries.items():
        cells = [("[green]✓[/] " if c.holds(summary) else "[red]✗[/] ") + c.shown(summary) for c in claims]
        table.add_row(str(seed), *cells)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    return 0 if all(claim.holds(summary) for claim in claims for summary in summaries.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
