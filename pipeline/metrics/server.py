"""Serves a registry to Prometheus, to the last number."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from pipeline.config.errors import ConfigError

PORT = "TAMIS_METRICS_PORT"
LAST_WORD_S = 15.0
_ANSWER_S = 0.5
"""Enough for an answer that is made to be sent."""


def metrics_server(registry: CollectorRegistry) -> WSGIServer | None:
    """Serves it at TAMIS_METRICS_PORT, if that is set. ConfigError if nobody can listen there."""
    port = os.environ.get(PORT)
    if not port:
        return None
    try:
        return start_http_server(int(port), registry=registry)[0]
    except (OSError, OverflowError, ValueError) as error:
        message = f"{port} can't be listened at ({error}); name another port"
        raise ConfigError.of("metrics_port", message, where=PORT) from error


def last_word(asked: Callable[[], int], stopping: Callable[[], bool], within_s: float = LAST_WORD_S) -> bool:
    """Wait until the numbers, which change no more, are asked for again, if they ever were; `asked` says how often.
    Whether they were. Ends when it is to stop."""
    before, until = asked(), time.monotonic() + within_s
    while before and not stopping() and time.monotonic() < until:
        if asked() > before:
            time.sleep(_ANSWER_S)
            return True
        time.sleep(0.05)
    return False
