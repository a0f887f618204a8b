"""What a demo came to: for people, and as JSON for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.history.audits.audit import Audit
from pipeline.history.view import RunView


def summarise(view: RunView, found: Audit, keys_left: int, report: Path) -> dict[str, Any]:
    """What `--json` writes. `audit` is "clean", or the list of violations."""
    first, last = view.progress.first_evaluation, view.progress.last_evaluation
    return {
        "run": view.run,
        "seed": view.seed,
        "outcome": str(view.outcome),
        "steps": view.step,
        "accuracy_before": first.accuracy if first else None,
        "accuracy_after": last.accuracy if last else None,
        "groups": view.groups.opened,
        "accepted": view.groups.accepted,
        "rejected": dict(view.groups.rejected),
        "replacements": view.groups.replacements,
        "keys_left": keys_left,
        "training_seconds": round(training_seconds(view), 1),
        "audit": "clean" if found.clean else list(found.violations),
        "report": str(report),
    }


def training_seconds(view: RunView) -> float:
    """From the opening of the first training group to the last step, without the pauses between."""
    rows = list(view.progress.batches)
    if not rows:
        return 0.0
    begin_ms, end_ms = rows[0].at_ms - rows[0].seconds * 1000, rows[-1].at_ms
    pauses_ms = sum(max(min(gap.end_ms, end_ms) - max(gap.start_ms, begin_ms), 0) for gap in view.gaps)
    return (end_ms - begin_ms - pauses_ms) / 1000


def told(summary: dict[str, Any]) -> str:
    """The same in a few lines."""
    before, after, audit = summary["accuracy_before"], summary["accuracy_after"], summary["audit"]
    accuracy = f"{before:.1%} → {after:.1%}" if before is not None and after is not None else "not measured"
    lines = [
        f"{summary['outcome']} after {summary['steps']} steps in {summary['training_seconds']:.0f} s of training",
        f"  held-out accuracy  {accuracy}",
        f"  groups             {summary['groups']:,} opened, {summary['accepted']:,} accepted, "
        f"{sum(summary['rejected'].values()):,} rejected, {summary['replacements']:,} replacements",
        f"  payloads left      {summary['keys_left']} keys",
        f"  audit              {audit if audit == 'clean' else f'{len(audit)} violations'}",
        *(f"    {violation}" for violation in (audit if audit != "clean" else [])[:20]),
        f"  report             {summary['report']}",
    ]
    return "\n".join(lines)
