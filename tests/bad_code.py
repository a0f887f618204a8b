"""What a user's code may do wrong: errors of all kinds, and values that are not what they seem."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

HALF = "\ud83d"
"""Half a character, as a model's output cut within an emoji has it: UTF-8 has no bytes for it."""
ESCAPED = "\\ud83d"
HUGE = 10**400
"""Beyond all floats; its text is still allowed. HUGER has not even that."""
HUGER = 10**5000


class Mute(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Odd(BaseException):
    """An error that is no Exception."""


class Shy:
    """A value whose text, truth, length and number raise."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    __len__ = __float__ = __iter__ = __bool__


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        raise error

    return call


def returning(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer


ERRORS: Mapping[str, tuple[BaseException, str]] = {
    "plain": (ValueError("lost"), "ValueError: lost"),
    "half a character": (ValueError(HALF), f"ValueError: {ESCAPED}"),
    "mute": (Mute(), "Mute: (Mute, whose text raised RuntimeError)"),
    "long": (ValueError("x" * 10_000), f"ValueError: {'x' * 4_000} [6000 more characters]"),
    "exit": (SystemExit(3), "SystemExit: 3"),
    "no Exception": (Odd("odd"), "Odd: odd"),
    "group": (BaseExceptionGroup("several", [Odd()]), "BaseExceptionGroup: several (1 sub-exception)"),
}
"""What may be raised, and how it is told."""
CANCELLED = (asyncio.CancelledError(), "CancelledError: ")
