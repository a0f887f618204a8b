"""Ctrl-C: once in order, within seconds whatever happens; twice at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S: Final = 9.0


class Interrupted(BaseException):
    """A person stopped it."""


class Stopping:
    """Whether somebody asked to stop. Work that has something to put in order does it `in_order`; other work is just
    left where it stands."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = self._careful = False

    def __call__(self) -> bool:
        return self._asked

    def ask(self) -> bool:
        """Whoever works is to stop. False: it is at nothing that needs an end, and won't look."""
        with self._lock:
            self._asked = True
            return self._careful

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """The work within looks at this, and ends by itself. Raises Interrupted if it was asked, before or within."""
        self._careful_is(True)
        try:
            yield
        finally:
            self._careful_is(False)

    def _careful_is(self, careful: bool) -> None:
        with self._lock:
            self._careful = careful
            if self._asked:
                raise Interrupted


def supervise(work: Callable[[Stopping], int], at_once: Callable[[], None]) -> int:
    """Do the work in a thread, and let signals stop it. `at_once` ends what it has started, in no order. The work's
    exit code, 128 + the signal's number if one stopped it; what it raises is raised here."""
    stopping, received = Stopping(), list[int]()
    codes, errors = list[int](), list[BaseException]()

    def do() -> None:
        try:
            codes.append(work(stopping))
        except BaseException as error:
            errors.append(error)

    before = {n: signal.signal(n, lambda signum, frame: received.append(signum)) for n in SIGNALS}
    thread = threading.Thread(target=do, name="demo", daemon=True)
    thread.start()
    patient_until = None
    while thread.is_alive():
        thread.join(0.05)
        if received and patient_until is None:
            patient_until = time.monotonic() + (PATIENCE_S if stopping.ask() else 0.0)
        if patient_until is not None and (len(received) > 1 or time.monotonic() > patient_until) and thread.is_alive():
            at_once()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(128 + received[0])  # the thread may be anywhere: nothing of it is waited for
    for number, handler in before.items():
        signal.signal(number, handler)
    if received and (not errors or isinstance(errors[0], Interrupted)):
        return codes[0] if codes else 128 + received[0]
    if errors:
        raise errors[0]
    return codes[0]
