"""What a rule of an import sees of the other system's file, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from pipeline.config.errors import Path, shown
from pipeline.config.imports.foreign import Foreign

Fate = Literal["no_counterpart", "elsewhere", "later", "unknown", "unresolved", "not_needed"]
"""Why a key isn't carried over. `elsewhere`: a plugin of the user's, or another file, has to take it. `not_needed`:
it decides nothing here, or nothing there."""

COUNTS: Final = ("no_counterpart", "later", "unknown", "unresolved")
"""Those that `--strict` refuses."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of ours, and where it comes from."""

    path: Path
    value: Any
    origin: str
    given: bool = True
    """Whether the file says so; else it is the other system's default, or to be written."""


@dataclass(frozen=True, slots=True)
class Left:
    """A key that isn't carried over, or not wholly, and why."""

    key: str
    value: str | None
    fate: Fate
    why: str


class NotCarried(Exception):
    """Raised by a rule: this value has no counterpart here."""

    def __init__(self, why: str, fate: Fate = "no_counterpart") -> None:
        super().__init__(why)
        self.why, self.fate = why, fate


@dataclass(frozen=True, slots=True)
class At:
    """A key of the file, as a rule sees it. `names`: what the stars of the row's key stand for."""

    key: str
    value: Any
    names: tuple[str, ...]
    file: Foreign
    default_of: str | None = None

    def set(self, *path: str | int, value: Any, note: str = "") -> Setting:
        """A value of ours that comes from this key."""
        origin = f"{self.default_of} default of {self.key}" if self.default_of else f"from {self.key}"
        return Setting(path, value, f"{origin}: {note}" if note else origin, self.default_of is None)

    def whole(self, least: int = 0) -> int:
        """The value, if it is a whole number of at least so much."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or self.value != self.value:
            raise NotCarried(f"is {shown(self.value)}; expected a whole number")
        if abs(self.value) > 10**15 or int(self.value) != self.value or self.value < least:
            raise NotCarried(f"is {self.value}; expected a whole number of at least {least}")
        return int(self.value)

    def number(self) -> float:
        """The value, if it is a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not abs(self.value) < 1e300:
            raise NotCarried(f"is {shown(self.value)}; expected a finite number")
        return self.value

    def flag(self) -> bool:
        """The value, if it is true or false."""
        if not isinstance(self.value, bool):
            raise NotCarried(f"is {shown(self.value)}; expected true or false")
        return self.value

    def word(self, *known: str) -> str:
        """The value, if it is one of these words (any text, if there are none)."""
        if not isinstance(self.value, str) or (known and self.value not in known):
            raise NotCarried(f"is {shown(self.value)}; expected {' or '.join(known) or 'text'}")
        return self.value
