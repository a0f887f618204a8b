"""What a person sees while a run goes on: a live screen on a terminal, else a line every few seconds."""

from __future__ import annotations

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pipeline.demo.layout import Standing, line, panel
from pipeline.history.view import RunView

LINE_EVERY_S = 5.0


class Screen:
    """Shows a view. `update` as often as you like, `close` from any thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._next_line_s = 0.0

    def say(self, text: str, style: str = "") -> None:
        """A sentence that stays; above the live screen, if there is one."""
        self._console.print(Text(text, style=style), soft_wrap=True)

    def update(self, view: RunView, standing: Standing, now_s: float) -> None:
        """Show how things stand."""
        if self._console.is_terminal:
            shown = panel(view, standing, self._console.width)
            if self._live is None:
                self._live = Live(shown, console=self._console, refresh_per_second=4, transient=True)
                self._live.start()
            self._live.update(shown)
        elif now_s >= self._next_line_s:
            self._next_line_s = now_s + LINE_EVERY_S
            self.say(line(view, standing))

    def close(self) -> None:
        """Take the live screen away."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
