"""How long an event takes to write and to read, beside fastavro with the dictionaries that it needs; microseconds of
CPU, the best of many turns. `python -m benchmarks.codec`"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import fastavro

from pipeline.domain import events as e
from pipeline.domain.grouping import member_of
from pipeline.domain.vocabulary import FinishReason, Grading
from pipeline.log.codec import HEAD, Members, decode, encode
from pipeline.log.schemas import read_schema

TURNS, CALLS = 100, 500
RESPONSE = e.ResponseScored(
    "1234@0", 3, 1, "tamis:demo-1:{1234@0}:3.1:0011223344556677", 4321, None, 1.0, 0.0, 1.0, {"exact": 1.0},
    Grading.GRADED, None, None, 1, 3, FinishReason.STOP, 4, 341, 3, 3, None, False, False, False, "generator-1", None,
    1_764_470_000_123,
)  # fmt: skip
GROUP = (member_of(RESPONSE),) * 8


def fastavro_write(schema: Any, value: Any) -> bytes:
    """By way of a dictionary."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, [asdict(v) for v in value] if isinstance(value, tuple) else asdict(value))
    return out.getvalue()


def fastavro_read(schema: Any, make: Callable[[Any], Any], data: bytes) -> Any:
    """Into dataclasses, with enums left as texts."""
    return make(fastavro.schemaless_reader(io.BytesIO(data), schema))


def main() -> None:
    """Print a line for each."""
    one = read_schema("ResponseScored", 1)
    several = fastavro.parse_schema({"type": "array", "items": read_schema("Member", 1)})
    members, response, group = Members(), encode(RESPONSE), Members().encode(GROUP)
    rows: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "ResponseScored, write": (partial(encode, RESPONSE), partial(fastavro_write, one, RESPONSE)),
        "ResponseScored, read": (
            partial(decode, response),
            partial(fastavro_read, one, lambda read: e.ResponseScored(**read), response[HEAD:]),
        ),
        "8 members, write": (partial(members.encode, GROUP), partial(fastavro_write, several, GROUP)),
        "8 members, read": (
            partial(members.decode, group),
            partial(fastavro_read, several, lambda read: [e.Member(**m) for m in read], group),
        ),
    }
    best = {name: [float("inf"), float("inf")] for name in rows}
    for _ in range(TURNS):
        for name, both in rows.items():
            for which, call in enumerate(both):
                best[name][which] = min(best[name][which], _microseconds(call))
    for name, (ours, theirs) in best.items():
        print(f"{name}: {ours:.1f} µs, fastavro {theirs:.1f} µs")


def _microseconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - started) / CALLS * 1e6


if __name__ == "__main__":
    main()
