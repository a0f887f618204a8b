"""What comes from code and services that aren't ours, as it can be decided by and recorded: text, numbers, yes or no.

It may be anything: an error whose text raises, half a character, a number beyond all floats, one of numpy's.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from numbers import Real
from typing import Final

MOST: Final = 4_000
"""Characters of a text that are recorded."""
SHORT: Final = 100
"""Characters of a value, or of a type's name."""


class Exited(Exception):
    """What foreign code raised that is no Exception, such as SystemExit (the cause), as an error like any other."""


def told(text: object) -> str:
    """The text, cut to MOST characters. Lone surrogates, which no UTF-8 can hold, are written as escapes."""
    whole = _text(text, str)
    cut = whole if len(whole) <= MOST else f"{whole[:MOST]} [{len(whole) - MOST} more characters]"
    return cut.encode("utf-8", "backslashreplace").decode()


def shown(value: object) -> str:
    """A value as it is written, cut to SHORT characters, even one that can't be."""
    return told(_text(value, repr)[:SHORT])


def told_error(error: BaseException) -> str:
    """Kind and text of an error, even of one that can't say what it is; of Exited, those of its cause."""
    if isinstance(error, Exited) and error.__cause__ is not None:
        error = error.__cause__
    return f"{kind(error)}: {told(error)}"


def kind(value: object) -> str:
    """The name of its type."""
    return told(type(value).__name__[:SHORT])


def number(value: object) -> float:
    """A finite number as a float, numpy's too. Raises ValueError, with what it is, for all else; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{shown(value)}; expected a number")
    try:
        found = float(value)
    except Exception:
        raise ValueError(f"{shown(value)}; expected a number that a float can hold") from None
    if not isfinite(found):
        raise ValueError(f"{found}; expected a finite number")
    return found


def flag(value: object) -> bool | None:
    """A bool, numpy's too; None for all else."""
    if isinstance(value, bool):
        return value
    of = type(value)
    return bool(value) if of.__module__ == "numpy" and of.__name__ in ("bool", "bool_") else None


def _text(value: object, how: Callable[[object], str]) -> str:
    try:
        return str.__getitem__(how(value), slice(None))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"({type(value).__name__}, whose text raised {type(error).__name__})"
