"""Awaiting what a user wrote: whatever it raises is an error of that call, and ends nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pipeline.domain.told import Exited

T = TypeVar("T")


async def contained(call: Callable[[], Awaitable[T]]) -> T:
    """What it returns. What it raises that is no Exception, such as SystemExit, for which asyncio would end the whole
    loop, is raised as Exited. Cancellation and KeyboardInterrupt pass."""
    try:
        return await call()
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise Exited from error


def is_told_to_end() -> bool:
    """Whether this task was asked to end from outside: a CancelledError is then not the user's."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
