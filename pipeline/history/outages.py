"""Which verifiers are out, by what the newest scored responses in the log say: also when no group ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from pipeline.domain.events import ResponseScored
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Grading
from pipeline.log.client import Connection
from pipeline.log.codec import Poison
from pipeline.log.reader import read_topic, watermarks
from pipeline.log.topics import topic_name
from pipeline.verifiers.health import LEAST, WINDOW_S, told

MOST_RECORDS: Final = 4_000
"""Looked at in each partition of rollouts."""
_NAMED = re.compile(r"verifier '([^']+)'")


def outages(connection: Connection, partitions: int, verifiers: Collection[str], now_ms: int) -> list[str]:
    """A sentence for each verifier that left most of the responses of the last minute without a score."""
    places = range(partitions)
    ends = watermarks(connection, topic_name(connection.run, Topic.ROLLOUTS), places)
    start = {place: max(ends[place][0], ends[place][1] - MOST_RECORDS) for place in places}
    return told_of(_scored(connection, start, now_ms - WINDOW_S * 1000), verifiers)


def told_of(scored: Iterable[ResponseScored], verifiers: Collection[str]) -> list[str]:
    """The same of these responses. A score stands under its verifier's name, a failure names it in its detail."""
    judged, failed, last = Counter[str](), Counter[str](), dict[str, str]()
    for event in scored:
        judged.update(name for name in event.components if name in verifiers)
        if event.grading is Grading.UNGRADED and event.detail is not None:
            for name in {name for name in _NAMED.findall(event.detail) if name in verifiers}:
                judged[name] += 1
                failed[name] += 1
                last[name] = event.detail
    return [
        told(name, many, judged[name], last[name])
        for name, many in sorted(failed.items())
        if many >= LEAST and 2 * many >= judged[name]
    ]


def _scored(connection: Connection, start: dict[int, int], since_ms: int) -> Iterator[ResponseScored]:
    for record in read_topic(connection, Topic.ROLLOUTS, list(start), start):
        if record.timestamp_ms < since_ms:
            continue
        try:
            event = record.event()
        except Poison:
            continue  # its dead letter is counted
        if isinstance(event, ResponseScored):
            yield event
