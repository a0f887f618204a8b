"""The monitor process: follows the run and serves its numbers to Prometheus. Its state is rebuilt from the log."""

import json
import sys
import time
from collections.abc import Sequence

import structlog

from pipeline.domain.events import Event
from pipeline.health import Standing
from pipeline.history.view import RunView
from pipeline.history.watch import MONITORED, Watch, read_view
from pipeline.metrics.run import ViewCollector, registry
from pipeline.metrics.server import last_word, metrics_server
from pipeline.process import Process, run_consumer
from pipeline.sdk import Tracker
from pipeline.trackers import Rows, open_trackers

log = structlog.get_logger(__name__)


def serve(process: Process) -> int:
    """Watch until told to stop, or until the run is drained."""
    rows = Rows()

    def noted(view: RunView, event: Event) -> None:
        process.heartbeat(standing(len(MONITORED)))
        rows.note(view, event)

    trackers = open_trackers(
        process.settings.trackers, process.folder() / "trackers", process.rules.run, json.loads(process.started.config)
    )
    watch = Watch(
        process.connection,
        process.store(),
        topics=MONITORED,
        rules=process.rules,
        listener=rows.note,
        heartbeat=process.heartbeat,
    )
    if trackers:  # in the order of time, so that a restart makes the same rows
        watch.view, watch.start_at = read_view(process.connection, noted)
    numbers = ViewCollector(watch.view, watch.lock)
    server = metrics_server(registry(numbers))
    watch.start()
    step = -1
    try:
        while not process.stopping() and not (process.until_finished and watch.view.drained):
            process.heartbeat(standing(len(watch.behind)))
            if watch.errors:
                raise watch.errors[0]
            tell(trackers, rows)
            if watch.view.step != step:
                step = watch.view.step
                log.info("step", step=step, accepted=watch.view.groups.accepted, phase=str(watch.view.phase))
            time.sleep(0.2)
        last_word(lambda: numbers.asked, process.stopping)
    finally:
        watch.stop()
        tell(trackers, rows)
        for tracker in trackers:
            tracker.close()
        if server is not None:
            server.shutdown()
    return 0


def standing(behind: int) -> Standing:
    """How the monitor stands while it has not read so many topics."""
    return Standing("monitor", behind, restored=not behind)


def tell(trackers: Sequence[Tracker], rows: Rows) -> None:
    """Give the trackers what is new. One that fails is left out of it: a run doesn't hang on who watches it."""
    for row in rows.take():
        for tracker in trackers:
            try:
                tracker.log(row.step, row.values)
            except Exception as error:
                log.warning("a tracker failed", tracker=type(tracker).__name__, step=row.step, why=str(error))


def main() -> int:
    """Entry point of the container."""
    return run_consumer("monitor", serve)


if __name__ == "__main__":
    sys.exit(main())
