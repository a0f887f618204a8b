"""One kind of error for everything that a person configured: it names the place, the value and the next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `name` is stable; `where` is a file and line, or the override that set the value."""

    name: str
    path: Path
    message: str
    where: str | None = None

    def __str__(self) -> str:
        parts = [self.where, dotted(self.path), self.message]
        return ": ".join(part for part in parts if part) + f" [{self.name}]"


class ConfigError(ValueError):
    """A configuration that can't be used, with every problem that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def of(cls, name: str, message: str, path: Path = (), where: str | None = None) -> ConfigError:
        """The error of a single problem."""
        return cls([Problem(name, path, message, where)])


def dotted(path: Path) -> str:
    """`filters.default[0].tol`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def shown(value: object) -> str:
    """A value as an error shows it: on one line, not too long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits out
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'seed'?`, or else all that is known."""
    names = sorted(known)
    found = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {found[0]!r}?" if found else f"expected one of: {', '.join(names) or '(none)'}"
