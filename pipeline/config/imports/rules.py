"""Rules that fit keys of every system."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.table import Rule


def whole(*path: str | int, least: int = 0) -> Rule:
    """A rule that carries a whole number over."""

    def rule(at: At) -> Iterator[Setting]:
        yield at.set(*path, value=at.whole(least))

    return rule


def run_name(at: At) -> Iterator[Setting]:
    """A rule that makes the name of a run from a text."""
    name = re.sub(r"[^a-z0-9_-]+", "-", at.word().lower()).strip("-_")[:63]
    if not name:
        raise NotCarried("has no letter or digit of a to z, 0 to 9; write a name in run")
    yield at.set("run", value=name)
