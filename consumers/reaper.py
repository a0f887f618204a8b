"""The reaper process: drops the payloads of what has ended. Two stages live in it, each with its own transactions: the
ledger's (one is active, others stand by) and that of single responses."""

import sys
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from pipeline.log.loop import Loop
from pipeline.process import Process, run_consumer
from pipeline.store.unlink import LastSweep, SweepingReaper, Sweeps, Unlinker


def serve(process: Process) -> int:
    """Reap until told to stop, or until one of the stages can't go on."""
    store = process.store()
    failed: list[BaseException] = []

    def stopping() -> bool:
        return bool(failed) or process.stopping()

    unlinker = Unlinker(store, stopping, process.heartbeat)
    ledger = SweepingReaper(process.members)
    responses = LastSweep(store, unlinker)
    sweeps = Sweeps(store, ledger)
    hooks = process.hooks(before_commit=unlinker.before_commit, facts=sweeps.facts)
    others = process.hooks(before_commit=unlinker.before_commit, facts=responses.facts)
    loops = [
        Loop(process.connection, ledger, process.rules, hooks),
        Loop(process.connection, responses, process.rules, others),
    ]
    with ThreadPoolExecutor(len(loops), "reaper") as threads:
        running = {threads.submit(loop.run, stopping, process.until_finished) for loop in loops}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            failed += [error for future in done if (error := future.exception()) is not None]
    if failed:
        raise failed[0]
    return 0


def main() -> int:
    """Entry point of the container."""
    return run_consumer("reaper", serve)


if __name__ == "__main__":
    sys.exit(main())
