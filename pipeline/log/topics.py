"""What the topics and consumer groups of a run are called in Kafka, and how the topics are configured."""

from __future__ import annotations

from typing import Final

from pipeline.domain.ids import RUN_RULE, is_run_name
from pipeline.domain.topology import StageName, Topic

PREFIX: Final = "tamis"
MIB: Final = 1 << 20

MAX_RECORD_BYTES: Final = 10 * MIB
"""The largest record that any topic takes: a dead letter holds another topic's largest, and says more about it."""

_MAX_BYTES: Final[dict[Topic, int]] = {
    Topic.PROMPTS: 4 * MIB,
    Topic.RESPONSES: MIB,
    Topic.ROLLOUTS: 4 * MIB,
    Topic.GROUPS: 8 * MIB,
    Topic.LEDGER: 8 * MIB,
    Topic.DISCARDS: MIB,
    Topic.DROPS: 8 * MIB,
    Topic.DEAD_LETTERS: MAX_RECORD_BYTES,
    Topic.SNAPSHOTS: 2 * MIB,
}


def check_run_name(run: str) -> str:
    """The name itself; ValueError if it can't be a part of a topic's name."""
    if not is_run_name(run):
        raise ValueError(f"{run!r} is no name of a run; expected {RUN_RULE}")
    return run


def topic_name(run: str, topic: Topic) -> str:
    """The Kafka topic: `tamis.<run>.<topic>`."""
    return f"{PREFIX}.{run}.{topic.value}"


def group_name(run: str, stage: StageName) -> str:
    """The consumer group of a stage: `tamis.<run>.<stage>`."""
    return f"{PREFIX}.{run}.{stage.value}"


def topic_config(topic: Topic) -> dict[str, str]:
    """A topic's settings: everything is kept for ever, save superseded snapshots."""
    config = {"retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": str(_MAX_BYTES[topic])}
    if topic is Topic.SNAPSHOTS:
        config["cleanup.policy"] = "compact"
    return config
