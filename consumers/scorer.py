"""The scorer process: admits payloads, runs the run's verifiers and its response filter."""

import sys

from pipeline.log.serving import ServingLoop
from pipeline.metrics import own
from pipeline.process import Process, run_consumer
from pipeline.verifiers.metrics import HealthCollector
from pipeline.verifiers.serving import Scorer


def serve(process: Process) -> int:
    """Judge until told to stop."""
    work = Scorer(process.config, process.store(), process.settings.concurrency)
    own.REGISTRY.register(HealthCollector([judge.health for judge in work.judges.values()]))
    loop = ServingLoop(process.connection, work, process.rules, process.hooks())
    return loop.run(process.stopping, process.until_finished)


def main() -> int:
    """Entry point of the container."""
    return run_consumer("scorer", serve)


if __name__ == "__main__":
    sys.exit(main())
