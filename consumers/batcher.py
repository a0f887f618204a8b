"""The batcher process: forms batches from accepted groups. One is active, others stand by."""

import sys

from pipeline import plugins
from pipeline.domain.window_batching import batcher
from pipeline.log.loop import Loop
from pipeline.process import Process, run_consumer


def serve(process: Process) -> int:
    """Form batches until told to stop."""
    stage = batcher(process.rules, process.members, plugins.selectors(process.rules))
    loop = Loop(process.connection, stage, process.rules, process.hooks())
    return loop.run(process.stopping, process.until_finished)


def main() -> int:
    """Entry point of the container."""
    return run_consumer("batcher", serve)


if __name__ == "__main__":
    sys.exit(main())
