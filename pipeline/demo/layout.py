"""How the live view is laid out, on wide and on narrow terminals, and as a line. Its height doesn't change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipeline.history.rows import Phase
from pipeline.history.view import RunView

WIDE = 108
NARROW = 72
REASONS = 3
SPARK = 16
BARS = "▁▂▃▄▅▆▇█"
LABEL = 11

Row = tuple[str, str | Text]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a view can't know: which processes are at work, since when, and the time. `doing`: what is done after the
    run. `problem`: what it waits for."""

    processes: Sequence[tuple[str, bool]]
    since_s: float
    now_ms: int
    doing: str = ""
    problem: str = ""

    @property
    def missing(self) -> list[str]:
        """Processes that are still starting."""
        return [name for name, ready in self.processes if not ready]


def activity(view: RunView, standing: Standing) -> str:
    """What is going on, in a few words."""
    if standing.doing:
        return standing.doing
    if view.phase is Phase.FINISHED:
        return "finished: the last payloads are dropped"
    if view.phase is Phase.CLOSING:
        return "closing: a last checkpoint, and what is open is cancelled"
    if standing.missing:
        ready = len(standing.processes) - len(standing.missing)
        return f"starting: {ready} of {len(standing.processes)} processes are at work"
    if view.phase is Phase.WAITING:
        return "waiting for the first policy"
    if view.phase is Phase.EVALUATING:
        running = view.progress.under_way.values()
        return f"evaluating on held-out prompts: {sum(u.ended for u in running)} of {sum(u.groups for u in running)}"
    return "training"


def panel(view: RunView, standing: Standing, width: int) -> RenderableType:
    """The live screen for a terminal of this width."""
    inner = max(width - 6, 20)
    body = _starting(standing, inner) if not _begun(view) else _numbers(view, standing, inner)
    shown = Panel(
        Group(_head(view, standing, inner), Text(), body),
        title=Text.assemble("tamis", (f" · {view.run}", "dim")),
        title_align="left",
        border_style="dim",
        padding=(1, 2),
        width=width,
    )
    return Group(shown, Text())  # the cursor stands on the last line, where a terminal echoes ^C


def line(view: RunView, standing: Standing) -> str:
    """The same in one line."""
    if not _begun(view):
        missing = f", waiting for {', '.join(standing.missing)}" if standing.missing else ""
        return f"{standing.since_s:.0f} s · {activity(view, standing)}{missing}"
    last, redis, rewards = view.progress.batches.last, view.redis.last, _rewards(view)
    parts = [
        f"step {view.step}/{view.steps}",
        _left(view),
        f"reward {_number(rewards[-1] if rewards else None)}",
        f"accuracy {_accuracy(view)}",
        f"open {view.groups.open_train + view.groups.open_eval}",
        f"accepted {view.groups.accepted}",
        f"rejected {_by_reason(view.groups.rejected)}",
        f"replaced {view.groups.replacements}",
        f"staleness {_number(last.staleness_mean if last else None)}",
        f"{view.groups_per_s(standing.now_ms):.0f} groups/s",
        f"{redis.keys} keys, {_size(redis.used_bytes)} in Redis" if redis else "",
        activity(view, standing),
        *_attention(view, standing),
    ]
    return " · ".join(part for part in parts if part)


def _begun(view: RunView) -> bool:
    """Whether there is anything to count."""
    return view.groups.opened + view.groups.opened_eval > 0


def _head(view: RunView, standing: Standing, inner: int) -> RenderableType:
    grid = Table.grid(expand=False)
    step = f"step {view.step} of {view.steps}" if view.steps else "step –"
    left = _left(view) or _clock(standing.since_s)
    bar = max(inner - 16 - 14, 8)
    for width in (16, bar, 14):
        grid.add_column(width=width)
    grid.columns[2].justify = "right"
    style = "green" if view.outcome else "cyan"
    done = ProgressBar(
        total=max(view.steps, 1), completed=view.step, width=bar, complete_style=style, finished_style="green"
    )
    grid.add_row(Text(step, style="bold"), done, Text(left, style="dim"))
    return Group(grid, Text(activity(view, standing), style="italic dim", no_wrap=True, overflow="ellipsis"))


def _starting(standing: Standing, inner: int) -> RenderableType:
    columns = max(min(inner // 18, 4), 1)
    grid = Table.grid(padding=(0, 2))
    names = [
        Text.assemble(("● ", "green") if ready else ("○ ", "dim"), (name, "" if ready else "dim"))
        for name, ready in standing.processes
    ]
    for start in range(0, len(names), columns):
        grid.add_row(*names[start : start + columns])
    why = "The trainer and the generators import torch first, which takes from 5 to 30 s."
    return Group(grid, Text(), Text(why if names else "", style="dim"))


def _numbers(view: RunView, standing: Standing, inner: int) -> RenderableType:
    learning, groups, payloads = _learning(view), _groups(view, standing), _payloads(view)
    gap = 3
    if inner + 6 >= WIDE:
        blocks: list[list[RenderableType]] = [[learning], [groups], [payloads]]
    elif inner + 6 >= NARROW:
        blocks = [[learning, Text(), payloads], [groups]]
    else:
        blocks = [[learning, Text(), groups, Text(), payloads]]
    width = (inner - gap * (len(blocks) - 1)) // len(blocks)
    grid = Table.grid(padding=(0, gap, 0, 0))
    for _ in blocks:
        grid.add_column(width=width)
    grid.add_row(*(Group(*block) for block in blocks))
    notes = [Text(note, style="red", no_wrap=True, overflow="ellipsis") for note in _attention(view, standing)]
    return Group(grid, *notes)


def _learning(view: RunView) -> Table:
    last = view.progress.batches.last
    rewards = _rewards(view)
    accuracies = [row.accuracy for row in view.progress.evaluations if row.accuracy is not None and not row.cut]
    staleness = f"{last.staleness_mean:.2f} versions" if last and last.staleness_mean is not None else "–"
    return _block(
        "LEARNING",
        [
            ("reward", _number(rewards[-1] if rewards else None)),
            ("", _spark(rewards)),
            ("accuracy", _accuracy(view)),
            ("", _spark(accuracies)),
            ("staleness", staleness),
        ],
    )


def _groups(view: RunView, standing: Standing) -> Table:
    groups = view.groups
    most = sorted(groups.rejected.items(), key=lambda row: -row[1])
    reasons: list[Row] = [("", Text(f"{many:,} {_reason(name)}", style="dim")) for name, many in most[:REASONS]]
    return _block(
        "GROUPS",
        [
            ("open", f"{groups.open_train + groups.open_eval:,}"),
            ("a second", f"{view.groups_per_s(standing.now_ms):,.0f}"),
            ("accepted", f"{groups.accepted:,}"),
            ("replaced", f"{groups.replacements:,}"),
            ("rejected", f"{sum(groups.rejected.values()):,}"),
            *reasons,
            *([("", "")] * (REASONS - len(reasons))),
        ],
    )


def _payloads(view: RunView) -> Table:
    redis = view.redis.last
    return _block(
        "PAYLOADS",
        [
            ("keys", f"{redis.keys:,}" if redis else "–"),
            ("in Redis", _size(redis.used_bytes) if redis else "–"),
        ],
    )


def _rewards(view: RunView) -> list[float]:
    """Of every step before which any group was judged."""
    return [row.sampled_reward for row in view.progress.batches if row.sampled_reward is not None]


def _block(title: str, rows: Sequence[Row]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=LABEL, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_row(Text(title, style="bold cyan"), "")
    for label, value in rows:
        table.add_row(Text(label, style="dim"), value if isinstance(value, Text) else Text(value, style="bold"))
    return table


def _attention(view: RunView, standing: Standing) -> list[str]:
    notes = [standing.problem] if standing.problem else []
    notes += [note.text for note in (*view.starvation[-1:], *view.failures[-1:])]
    if view.dead_letters:
        notes.append(f"dead letters: {_by_reason(view.dead_letters)}")
    return notes


def _spark(values: Sequence[float]) -> Text:
    """A curve of at most SPARK characters; each stands for the mean of its share of the values."""
    if len(values) < 2:
        return Text("")
    count = min(SPARK, len(values))
    means = []
    for i in range(count):
        share = values[i * len(values) // count : (i + 1) * len(values) // count]
        means.append(fsum(share) / len(share))
    low, high = min(means), max(means)
    span = high - low or 1.0
    return Text("".join(BARS[round((mean - low) / span * (len(BARS) - 1))] for mean in means), style="cyan")


def _left(view: RunView) -> str:
    seconds = view.seconds_left
    return "" if seconds is None or view.outcome is not None else f"{_clock(seconds)} left"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _size(used_bytes: int) -> str:
    return f"{used_bytes / 1e6:.1f} MB"


def _accuracy(view: RunView) -> str:
    known = [row.accuracy for row in view.progress.evaluations if row.accuracy is not None and not row.cut]
    if not known:
        return "–"
    return f"{known[0]:.1%}" if len(known) == 1 else f"{known[0]:.1%} → {known[-1]:.1%}"


def _reason(name: str) -> str:
    return name.split("/")[-1].replace("_", " ")


def _by_reason(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda row: -row[1])[:REASONS]
    named = ", ".join(f"{_reason(name)} {many}" for name, many in most)
    return f"{sum(counts.values())}" + (f" ({named})" if named else "")
