"""The assembler process: buffers responses until their group is complete."""

import sys

from pipeline.domain.assembly import Assembler
from pipeline.log.loop import Loop
from pipeline.process import Process, run_consumer


def serve(process: Process) -> int:
    """Assemble groups until told to stop."""
    stage = Assembler(process.rules, process.members)
    loop = Loop(process.connection, stage, process.rules, process.hooks())
    return loop.run(process.stopping, process.until_finished)


def main() -> int:
    """Entry point of the container."""
    return run_consumer("assembler", serve)


if __name__ == "__main__":
    sys.exit(main())
