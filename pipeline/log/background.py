"""The thread in which work is served, so that nothing that it does keeps the loop from polling."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from pipeline.log.work import Answer, Work

CLOSE_S = 2.0


class Background:
    """Runs a Work; hands its answers over in the order in which they were published."""

    def __init__(self, work: Work) -> None:
        self._answers: deque[Sequence[Answer]] = deque()
        self._news = threading.Event()
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(work.run(self._publish))
        self._thread = threading.Thread(target=self._serve, name=f"{work.name}-work", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Have a method of the work called in its thread."""
        self._loop.call_soon_threadsafe(self._guarded, function, *arguments)

    def wait(self, timeout_s: float) -> None:
        """Return when there are answers, or after `timeout_s`."""
        self._news.wait(timeout_s)

    def answers(self) -> Sequence[Answer] | None:
        """The next answers, None if there are none. Raises what ended the work."""
        if self._error is not None:
            raise self._error
        if self._answers:
            return self._answers.popleft()
        self._news.clear()
        return self._answers.popleft() if self._answers else None

    def close(self) -> bool:
        """End the work, unfinished; False if it doesn't end within 2 s (a call that blocks the thread)."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(CLOSE_S)
        return not self._thread.is_alive()

    def _publish(self, answers: Sequence[Answer]) -> None:
        self._answers.append(answers)
        self._news.set()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._fail(error)
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_S / 2))
            self._loop.close()

    def _guarded(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            function(*arguments)
        except BaseException as error:
            self._fail(error)
            self._task.cancel()

    def _fail(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self._error = self._error or error
        self._news.set()
