"""The monitor process: follows the run and serves its numbers to Prometheus. Its state is rebuilt from the log."""

import sys
import time

import structlog

from pipeline.history.watch import MONITORED, Watch
from pipeline.metrics.run import registry
from pipeline.metrics.server import metrics_server
from pipeline.process import Process, run_consumer

log = structlog.get_logger(__name__)


def serve(process: Process) -> int:
    """Watch until told to stop, or until the run is drained."""
    watch = Watch(process.connection, process.store(), topics=MONITORED, rules=process.rules)
    server = metrics_server(registry(watch.view, watch.lock))
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
