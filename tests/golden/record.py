"""Records the golden log anew: a run with everything in it that a stage may meet."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DiscardReason, ExpiryReason, Reason
from pipeline.local import down, ensure
from tests.e2e.harness import ROLES, Run
from tests.golden.fold import fold
from tests.golden.log import LOG, PINS, given, line, read

CONFIG = {
    "steps": 5,
    "redundancy": 1,
    "tick": "1s",
    "engine": {"factory": "tests.e2e.plugins:Dice", "options": {"batch": 1}},
    "prompts": {
        "factory": "tests.e2e.plugins:Numbers",
        "options": {
            "plans": {"0": "constant", "1": "constant", "2": "constant", "3": "half", "4": "slow", "9": "cancel"}
        },
    },
    "eval_prompts": {"factory": "tests.e2e.plugins:Numbers", "options": {"sizes": {"a": 3}}},
    "evaluation": {"every": 3, "samples": 2},
}


def run_it(run: Run) -> None:
    """Constant groups are rejected and replaced; a generator dies and does slots again; a record that can't be read
    ends a group; groups that were opened beyond the lead become stale."""
    run.hold("slow")
    run.hold("train-1")
    run.start(*(role for role in ROLES if role != "generator"))
    first = run.start("generator")
    run.reached("slow")
    run.until_event(e.GroupRejected, 3)
    half, slow = (_group(run, ordinal) for ordinal in (3, 4))
    run.until_event(e.ResponseScored, 1, Topic.ROLLOUTS, lambda event: event.group_id == half)
    run.write_raw(Topic.ROLLOUTS, b"not a record", slow.encode(), int(slow.split("@")[1]))
    run.until_event(e.GroupRejected, 1, where=lambda event: event.group_id == slow)
    first.kill()
    run.release("slow")
    run.start("generator")
    run.reached("train-1")
    run.until_event(e.GroupAccepted, 5)
    run.release("train-1")
    run.finish()


def _group(run: Run, ordinal: int) -> str:
    return run.until(
        lambda: [event.group_id for event in run.events(e.GroupOpened) if event.prompt.ordinal == ordinal], "group"
    )[-1]


def missing(run: Run) -> set[str]:
    """What the run was to have, and hasn't."""
    found = {event.reason for event in run.events(e.ResponseDiscarded, Topic.DISCARDS)}
    found |= {event.reason for event in run.events(e.GroupExpired)}
    found |= {event.reason for event in run.events(e.GroupRejected)}
    wanted = {DiscardReason.DUPLICATE, DiscardReason.LATE, DiscardReason.FAILED, ExpiryReason.STALE, Reason.ZERO_STD}
    return {str(reason) for reason in {*wanted, Reason.UNDECODABLE} - found}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        services = ensure(Path(folder) / "services", redis_maxmemory=512 << 20)
        for attempt in range(10):
            place = Path(folder) / str(attempt)
            place.mkdir()
            run = Run(services, f"golden-{time.time_ns()}", place, **CONFIG)
            try:
                run_it(run)
                if not (lacks := missing(run)):
                    _write(run)
                    break
                print(f"it has no {', '.join(lacks)}; once more")
            finally:
                run.close()
        down(Path(folder) / "services", wipe=True)


def _write(run: Run) -> None:
    records = sorted(
        (record for records in run.log.values() for record in records),
        key=lambda record: (record.timestamp_ms, record.topic, record.partition, record.offset),
    )
    LOG.write_text("".join(f"{line(record)}\n" for record in records if record.topic is not Topic.SNAPSHOTS))
    print(f"{len(records)} records in {LOG}")


def write_pins() -> None:
    """What the stages of this release make of the log."""
    inputs, states = given(read())
    PINS.write_text(json.dumps({"fold": fold(inputs), "states": states}, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["--pins"]:
        main()
    write_pins()
