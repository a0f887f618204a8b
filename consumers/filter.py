"""The filter process: accepts or rejects each assembled group."""

import sys

from pipeline import plugins
from pipeline.domain.filters.stage import Filter
from pipeline.log.loop import Loop
from pipeline.process import Process, run_consumer


def serve(process: Process) -> int:
    """Decide groups until told to stop."""
    stage = Filter(process.rules, process.members, plugins.group_filters(process.rules))
    loop = Loop(process.connection, stage, process.rules, process.hooks())
    return loop.run(process.stopping, process.until_finished)


def main() -> int:
    """Entry point of the container."""
    return run_consumer("filter", serve)


if __name__ == "__main__":
    sys.exit(main())
