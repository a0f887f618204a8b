"""A run's report: one HTML file that holds everything it needs, and asks nothing of any other address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from pipeline.domain.vocabulary import Grading
from pipeline.history.audits.audit import Audit
from pipeline.history.reports import tables
from pipeline.history.reports.curves import start_ms
from pipeline.history.reports.figures import figures
from pipeline.history.reports.tables import percent
from pipeline.history.view import RunView

FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Card:
    """A number that sums the run up, and the small print under it. `good`: green or red, None: neither."""

    title: str
    value: str
    detail: str = ""
    good: bool | None = None


def write_report(
    path: Path, view: RunView, audit: Audit | None = None, keys_left: int | None = None, note: str = ""
) -> None:
    """Write the report of a run. `note` is shown above all else, such as how the policy was warm-started."""
    path.write_text(render(view, audit, keys_left, note), encoding="utf-8")


def render(view: RunView, audit: Audit | None = None, keys_left: int | None = None, note: str = "") -> str:
    """The report as HTML."""
    return page("report.html.j2").render(
        view=view,
        audit=audit,
        note=note,
        cards=cards(view, audit, keys_left),
        figures=figures(view),
        gaps=[[_minutes(view, g.start_ms), _minutes(view, g.end_ms)] for g in view.gaps],
        counts=count_tables(view),
        domains=tables.domains(view),
        rejections=tables.rejections(view),
        guards=tables.guards(view),
        shadows=tables.shadows(view),
        percent=percent,
        duration=duration,
        plotly=get_plotlyjs(),
    )


def page(name: str) -> Template:
    """A template of this folder."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def cards(view: RunView, audit: Audit | None, keys_left: int | None) -> list[Card]:
    """The summary."""
    groups = view.groups
    rejected = sum(groups.rejected.values())
    judged = groups.accepted + rejected
    made = [
        _accuracy(view),
        Card("Steps", f"{view.step} of {view.steps}", str(view.outcome or view.phase)),
        Card("Training groups", f"{groups.opened:,}", f"{groups.opened_eval:,} more for evaluation"),
        Card("Accepted", f"{groups.accepted:,}", f"{percent(groups.accepted, judged)} of {judged:,} judged"),
        Card("Rejected", f"{rejected:,}", _named(groups.rejected)),
        *_kept_apart(view),
        Card("Replacements", f"{groups.replacements:,}", f"{sum(groups.waived.values()):,} waived"),
    ]
    if keys_left is not None:
        made.append(Card("Keys left in Redis", f"{keys_left:,}", "after the run", keys_left == 0))
    if audit is not None:
        made.append(_audit(audit))
    pauses = f"pauses left out: {len(view.gaps)}" if view.gaps else "without a pause"
    made.append(Card("Duration", duration(view.active_s), pauses))
    return made


def count_tables(view: RunView) -> dict[str, dict[str, int]]:
    """Everything that was counted by name."""
    groups, progress = view.groups, view.progress
    tables = {
        "Groups rejected": groups.rejected,
        "Groups expired": groups.expired,
        "Replacements waived": groups.waived,
        "Responses discarded": view.discarded,
        "Training responses failed": groups.failures.counts,
        "Members by grading": _by_grading(view),
        "Payloads dropped": view.dropped,
        "Prompts skipped": groups.skipped_prompts,
        "Batches skipped": progress.skipped,
        "Batches returned": progress.returned,
        "Dead letters": view.dead_letters,
    }
    return {name: dict(sorted(table.items(), key=lambda row: -row[1])) for name, table in tables.items() if table}


def _by_grading(view: RunView) -> dict[str, int]:
    found = {str(grading): sum(d.graded.get(grading, 0) for d in view.groups.domains.values()) for grading in Grading}
    return found if any(found.values()) else {}


def duration(seconds: float) -> str:
    """A duration for people."""
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 60:
        return f"{seconds:.0f} s"
    return (
        f"{int(minutes)} min {int(seconds % 60):02d} s" if hours < 1 else f"{int(hours)} h {int(minutes % 60):02d} min"
    )


def _accuracy(view: RunView) -> Card:
    first, last = view.progress.first_evaluation, view.progress.last_evaluation
    if first is None or last is None or first.accuracy is None or last.accuracy is None:
        return Card("Held-out accuracy", "–", "no evaluation was finished")
    if first is last:
        return Card("Held-out accuracy", f"{first.accuracy:.3f}", f"policy {first.version}, {first.groups:,} prompts")
    detail = f"policy {first.version} → {last.version}, {last.groups:,} prompts"
    return Card(
        "Held-out accuracy", f"{first.accuracy:.3f} → {last.accuracy:.3f}", detail, last.accuracy > first.accuracy
    )


def _kept_apart(view: RunView) -> list[Card]:
    """What guards and selection did, where there are any."""
    groups, made = view.groups, []
    if groups.kept_by_guard:
        made.append(Card("Kept by a guard", f"{groups.kept_by_guard:,}", "counted as accepted"))
    if groups.deselected:
        share = percent(groups.deselected, groups.accepted)
        made.append(Card("Deselected", f"{groups.deselected:,}", f"{share} of the accepted"))
    return made


def _audit(audit: Audit) -> Card:
    compared = f"{audit.checked.get('outputs compared', 0):,} decisions replayed"
    if audit.violations:
        return Card("Audit", f"{len(audit.violations)} violations", compared, False)
    pending = f", {len(audit.pending)} pending" if audit.pending else ""
    return Card("Audit", "clean", compared + pending, True)


def _named(counts: dict[str, int]) -> str:
    most = sorted(counts.items(), key=lambda row: -row[1])[:3]
    return ", ".join(f"{name.split('/')[-1].replace('_', ' ')} {many:,}" for name, many in most)


def _minutes(view: RunView, at_ms: int) -> float:
    return (at_ms - start_ms(view)) / 60_000
