"""Serves a registry to Prometheus."""

from __future__ import annotations

import os
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from pipeline.config.errors import ConfigError

PORT = "TAMIS_METRICS_PORT"


def metrics_server(registry: CollectorRegistry) -> WSGIServer | None:
    """Serves it at TAMIS_METRICS_PORT, if that is set. ConfigError if nobody can listen there."""
    port = os.environ.get(PORT)
    if not port:
        return None
    try:
        return start_http_server(int(port), registry=registry)[0]
    except (OSError, ValueError) as error:
        message = f"{port} can't be listened at ({error}); name another port"
        raise ConfigError.of("metrics_port", message, where=PORT) from error
