"""The command line. This module imports nothing slow, so that Ctrl-C is answered well from the first moment."""

from __future__ import annotations

import signal


def main() -> None:
    """Entry point of `tamis`. Until a command wants it otherwise, Ctrl-C ends the process without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pipeline.cli.commands import run

    run()
