"""The trainer process: pulls batches to the device, trains, checkpoints, publishes. One is active, others stand by."""

import sys

from pipeline import plugins
from pipeline.domain.topology import StageName
from pipeline.log.seat import Seat
from pipeline.process import Process, run_consumer
from pipeline.training.advantages import AdvantageConfig
from pipeline.training.files import RunFiles
from pipeline.training.settings import step_settings
from pipeline.training.trainer import Trainer
from pipeline.training.work import Work


def serve(process: Process) -> int:
    """Train until told to stop."""
    advantages, start = process.config.advantages, process.config.start
    work = Work(
        plugins.learner(process.config),
        process.store(),
        process.members,
        RunFiles(process.folder()),
        AdvantageConfig(advantages.kind, advantages.eps, advantages.exclude_truncated),
        step_settings(process.config),
        start.policy() if start is not None else None,
    )
    seat = Seat(process.connection, StageName.TRAINER, process.heartbeat)
    try:
        trainer = Trainer(process.rules, seat, work, process.settings.slot, process.heartbeat)
        return trainer.serve(process.stopping, process.until_finished)
    finally:
        seat.close()


def main() -> int:
    """Entry point of the container."""
    return run_consumer("trainer", serve)


if __name__ == "__main__":
    sys.exit(main())
