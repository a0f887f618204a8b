"""The generator process: samples responses with the run's engine, and writes their payloads."""

import sys

from pipeline import plugins
from pipeline.engines.serving import Generator
from pipeline.log.serving import ServingLoop
from pipeline.process import Process, run_consumer


def serve(process: Process) -> int:
    """Sample until told to stop."""
    settings = process.settings
    work = Generator(
        process.rules,
        plugins.engine(process.config),
        process.store(),
        process.folder(),
        settings.slot,
        settings.concurrency,
        process.config.publication == "refresh",
    )
    loop = ServingLoop(process.connection, work, process.rules, process.hooks())
    return loop.run(process.stopping, process.until_finished)


def main() -> int:
    """Entry point of the container."""
    return run_consumer("generator", serve)


if __name__ == "__main__":
    sys.exit(main())
