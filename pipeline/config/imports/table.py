"""How a configuration is carried over: one row for each key of the other system."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.config.errors import Path, shown
from pipeline.config.imports.answers import At, Fate, Left, Setting
from pipeline.config.imports.foreign import Foreign, Key
from pipeline.config.imports.interpolation import Unresolved

_SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)


class Absent:
    """No default."""


ABSENT: Final = Absent()


Rule = Callable[[At], Iterator[Setting]]


@dataclass(frozen=True, slots=True)
class Row:
    """What becomes of a key. A star stands for one part of it, `**` for all that is below. Without a rule it isn't
    carried over, and `note` says why. `default`: the other system's, written out where the file doesn't say;
    `mode`: the pipeline of that system that has the key."""

    key: str
    ours: str
    note: str = ""
    rule: Rule | None = None
    fate: Fate = "no_counterpart"
    default: Any = ABSENT
    mode: str = ""

    def names(self, key: Key) -> tuple[str, ...] | None:
        """What the stars stand for in a key; None: it is another one."""
        parts = self.key.split(".")
        if parts[-1] == "**":
            parts, key = parts[:-1], key[: len(parts) - 1]
        if len(parts) != len(key) or any(part not in ("*", given) for part, given in zip(parts, key, strict=True)):
            return None
        return tuple(given for part, given in zip(parts, key, strict=True) if part == "*")


@dataclass(slots=True)
class Draft:
    """A configuration of ours in the making."""

    file: Foreign
    mode: str
    settings: dict[Path, Setting] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)

    def put(self, *path: str | int, value: Any, origin: str, given: bool = False) -> None:
        """Set a value that comes from no single key."""
        self.settings[path] = Setting(path, value, origin, given)

    def ask(self, *path: str | int, value: Any, what: str) -> None:
        """A placeholder, unless the value is there: the user has to write it."""
        if not self.has(*path):
            self.settings[path] = Setting(path, value, f"TO WRITE: {what}", given=False)

    def has(self, *path: str | int) -> bool:
        """Whether something is set there or below."""
        return any(known[: len(path)] == path for known in self.settings)

    def value(self, *path: str | int) -> Any:
        """What is set there, None if nothing is."""
        found = self.settings.get(path)
        return None if found is None else found.value

    def refuse(self, key: str, value: Any, fate: Fate, why: str) -> None:
        """Say of a key that it isn't carried over."""
        text = None if value is None else "***" if _SECRET.search(key) else _words(value)
        self.left.append(Left(key, text, fate, why))


@dataclass(frozen=True, slots=True)
class System:
    """Another system: its name, what becomes of its keys, its pipelines, and what remains to do after the rows."""

    name: str
    rows: tuple[Row, ...]
    mode: Callable[[Foreign], str]
    finish: Callable[[Draft], None]

    @property
    def whose(self) -> str:
        """`ROLL's`, `MILES'`"""
        return f"{self.name}'" if self.name.endswith("S") else f"{self.name}'s"


def _words(value: Any) -> str:
    return str(value) if isinstance(value, Unresolved) else shown(value)
