"""The scheduler process: decides which prompts are open, with a ticker beside it. One is active, others stand by."""

import sys

from pipeline import plugins
from pipeline.config.check import check_source
from pipeline.domain.scheduling import Scheduler
from pipeline.log.loop import Loop
from pipeline.log.ticker import Ticker
from pipeline.process import Process, run_consumer
from pipeline.prompts.feed import Feed
from pipeline.runs import check_prompts


def serve(process: Process) -> int:
    """Schedule until told to stop."""
    prompts, eval_prompts = plugins.prompts(process.config), plugins.eval_prompts(process.config)
    check_prompts(process.started, prompts, eval_prompts)
    check_source(process.config, prompts)
    stage = Scheduler(
        process.rules,
        Feed(prompts, process.rules),
        Feed(eval_prompts, process.rules) if eval_prompts is not None else None,
        tuple(eval_prompts.domains()) if eval_prompts is not None else (),
    )
    ticker = Ticker(process.connection, process.rules.tick_ms)
    hooks = process.hooks(
        assigned=lambda partitions: ticker.start(),
        dropped=ticker.stop,
        finished=ticker.stop,
    )
    return Loop(process.connection, stage, process.rules, hooks).run(process.stopping, process.until_finished)


def main() -> int:
    """Entry point of the container."""
    return run_consumer("scheduler", serve)


if __name__ == "__main__":
    sys.exit(main())
