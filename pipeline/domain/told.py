"""Text from outside (an exception, a service's answer) as a record can hold it."""

from __future__ import annotations

from typing import Final

MOST: Final = 4_000
"""Characters of it that are recorded."""


def told(text: object) -> str:
    """The text, cut to MOST characters. Lone surrogates, which no UTF-8 can hold, are written as escapes."""
    whole = str(text)
    cut = whole if len(whole) <= MOST else f"{whole[:MOST]} [{len(whole) - MOST} more characters]"
    return cut.encode("utf-8", "backslashreplace").decode()


def shown(value: object) -> str:
    """A value as it is written, cut to 100 characters, even one that can't be."""
    try:
        return told(repr(value)[:100])
    except Exception:
        return f"a {type(value).__name__}"


def told_error(error: BaseException) -> str:
    """Kind and text of an exception, even of one that can't say what it is."""
    try:
        return told(f"{type(error).__name__}: {error}")
    except Exception:
        return type(error).__name__
