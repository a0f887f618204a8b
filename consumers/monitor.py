"""The monitor process: follows the run and serves its numbers to Prometheus. Its state is rebuilt from the log."""

import os
import sys
import time
from wsgiref.simple_server import WSGIServer

import structlog
from prometheus_client import start_http_server

from pipeline.config.errors import ConfigError
from pipeline.history.watch import Watch
from pipeline.metrics import registry
from pipeline.process import Process, run_consumer

log = structlog.get_logger(__name__)


def metrics_server(watch: Watch) -> WSGIServer | None:
    """Serves the watched numbers at TAMIS_METRICS_PORT, if that is set."""
    port = os.environ.get("TAMIS_METRICS_PORT")
    if not port:
        return None
    try:
        return start_http_server(int(port), registry=registry(watch.view, watch.lock))[0]
    except (OSError, ValueError) as error:
        message = f"{port} can't be listened at ({error}); name another port"
        raise ConfigError.of("metrics_port", message, where="TAMIS_METRICS_PORT") from error


def serve(process: Process) -> int:
    """Watch until told to stop, or until the run is drained."""
    watch = Watch(process.connection, process.store())
    server = metrics_server(watch)
    watch.start()
    step = -1
    try:
        while not process.stopping() and not (process.until_finished and watch.view.drained):
            process.heartbeat()
            if watch.errors:
                raise watch.errors[0]
            if watch.view.step != step:
                step = watch.view.step
                log.info("step", step=step, accepted=watch.view.groups.accepted, phase=str(watch.view.phase))
            time.sleep(0.2)
    finally:
        watch.stop()
        if server is not None:
            server.shutdown()
    return 0


def main() -> int:
    """Entry point of the container."""
    return run_consumer("monitor", serve)


if __name__ == "__main__":
    sys.exit(main())
