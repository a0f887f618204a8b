"""What a person sees while a run goes on: a live screen on a terminal, else a line every few seconds."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipeline.history.view import RunView

LINE_EVERY_S = 5.0


class Screen:
    """Shows a view. `update` as often as you like."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._last_line_s = 0.0

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """A sentence that stays."""
        self._console.print(text, highlight=False)

    def update(self, view: RunView, now_s: float) -> None:
        """Show how things stand."""
        if self._live is not None:
            self._live.update(panel(view))
        elif now_s - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = now_s
            self._console.print(line(view), highlight=False, soft_wrap=True)


def panel(view: RunView) -> RenderableType:
    """The live screen."""
    bar = ProgressBar(total=max(view.steps, 1), completed=view.step, width=40)
    head = Table.grid(padding=(0, 2))
    head.add_row(Text(f"step {view.step} of {view.steps}", style="bold"), bar, Text(_left(view)), Text(str(view.phase)))
    return Panel(Group(head, Text(), _numbers(view)), title=f"tamis · {view.run}", border_style="cyan")


def _numbers(view: RunView) -> Table:
    groups, progress, table = view.groups, view.progress, Table.grid(padding=(0, 3))
    last, redis = progress.batches.last, view.redis.last
    table.add_row("reward", _number(last.sampled_reward if last else None), "held-out accuracy", _accuracy(view))
    table.add_row("groups open", f"{groups.open_train}", "accepted", f"{groups.accepted}")
    table.add_row("rejected", _by_reason(groups.rejected), "replacements", f"{groups.replacements}")
    table.add_row("expired", _by_reason(groups.expired), "waived", _by_reason(groups.waived))
    table.add_row("staleness", _number(last.staleness_mean if last else None), "groups/s", f"{view.groups_per_s():.0f}")
    table.add_row(
        "payload keys", f"{redis.keys}" if redis else "–", "Redis", f"{redis.used_bytes / 1e6:.1f} MB" if redis else "–"
    )
    if view.starvation or view.failures:
        notes = [note.text for note in (*view.starvation[-1:], *view.failures[-1:])]
        table.add_row("[bold red]attention", Text("; ".join(notes), style="red"))
    return table


def line(view: RunView) -> str:
    """The same in one line."""
    last, redis = view.progress.batches.last, view.redis.last
    parts = [
        f"step {view.step}/{view.steps}",
        _left(view),
        f"reward {_number(last.sampled_reward if last else None)}",
        f"accuracy {_accuracy(view)}",
        f"open {view.groups.open_train + view.groups.open_eval}",
        f"accepted {view.groups.accepted}",
        f"rejected {_by_reason(view.groups.rejected)}",
        f"replaced {view.groups.replacements}",
        f"staleness {_number(last.staleness_mean if last else None)}",
        f"{view.groups_per_s():.0f} groups/s",
        f"{redis.keys} keys, {redis.used_bytes / 1e6:.1f} MB in Redis" if redis else "",
        str(view.phase),
    ]
    return " · ".join(part for part in parts if part)


def _left(view: RunView) -> str:
    seconds = view.seconds_left
    return "" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02d} left"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _accuracy(view: RunView) -> str:
    known = [row.accuracy for row in view.progress.evaluations if row.accuracy is not None and not row.cut]
    if not known:
        return "–"
    return f"{known[0]:.1%}" if len(known) == 1 else f"{known[0]:.1%} → {known[-1]:.1%}"


def _by_reason(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    most = sorted(counts.items(), key=lambda item: -item[1])[:3]
    return f"{total}" + (f" ({', '.join(f'{name} {many}' for name, many in most)})" if most else "")
