"""The batcher process: forms batches from accepted groups. One is active, others stand by."""

import sys

from pipeline.domain.batching import Batcher
from pipeline.log.hooks import Hooks
from pipeline.log.loop import Loop
from pipeline.process import Process, run_consumer


def serve(process: Process) -> int:
    """Form batches until told to stop."""
    loop = Loop(process.connection, Batcher(process.rules), process.rules, Hooks(heartbeat=process.heartbeat))
    return loop.run(process.stopping, process.until_finished)


def main() -> int:
    """Entry point of the container."""
    return run_consumer("batcher", serve)


if __name__ == "__main__":
    sys.exit(main())
