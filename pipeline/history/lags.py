"""What the stages of a run have not handled yet."""

from __future__ import annotations

from typing import Any

from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, StageName, partitions
from pipeline.log.admin import committed_offsets
from pipeline.log.client import Connection
from pipeline.log.reader import watermarks
from pipeline.log.topics import topic_name


def lags(connection: Connection, rules: Rules) -> list[dict[str, Any]]:
    """What is there, and what is handled, by stage and partition. A lag of 1 or 2 may be a transaction's marker. The
    trainer has none: its offset is where it would begin again, which stays behind until a checkpoint."""
    rows = []
    for stage in StageName:
        inputs = range(partitions(READS[stage], rules))
        handled = committed_offsets(connection, stage, rules)  # before the ends: a stage at work commits meanwhile
        there = watermarks(connection, topic_name(connection.run, READS[stage]), inputs)
        for partition, committed in sorted(handled.items()):
            first, end = there[partition]
            has_lag = committed >= 0 and stage is not StageName.TRAINER
            rows.append(
                {
                    "stage": stage.value,
                    "topic": READS[stage].value,
                    "partition": partition,
                    "first": first,
                    "committed": committed if committed >= 0 else None,
                    "end": end,
                    "lag": end - committed if has_lag else None,
                }
            )
    return rows


def lag_by_stage(connection: Connection, rules: Rules) -> dict[str, int]:
    """Records that each stage has not handled, over all partitions; without those whose offset is gone."""
    found: dict[str, int] = {}
    for row in lags(connection, rules):
        if row["stage"] == StageName.TRAINER:
            continue
        found[row["stage"]] = found.get(row["stage"], 0) + (row["lag"] or 0)
    return found
