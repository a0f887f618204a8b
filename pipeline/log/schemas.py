"""The contracts: `schemas/<event>/v<N>.avsc`, never edited once merged, and the lock that pins each by two hashes.

Run as a command it writes the files that are missing, and the lock; a file that exists stays as it is:

    python -m pipeline.log.schemas
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

import pipeline
from pipeline.domain.events import EVENTS, Event, Member
from pipeline.log.derive import schema_of

FOLDER = Path(pipeline.__file__).parents[1] / "schemas"
LOCK = "lock.json"


class SchemaError(Exception):
    """The schema files and the lock disagree, or one is missing."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of an event's schema. `fingerprint` is CRC-64-AVRO, 8 bytes, little endian as in a record."""

    event: str
    version: int
    fingerprint: bytes
    sha256: str


def folder_of(event: str) -> str:
    """The folder of an event's schemas: its name in snake case."""
    return re.sub(r"(?<=.)([A-Z])", r"_\1", event).lower()


def avro_fingerprint(schema: Any) -> bytes:
    """CRC-64-AVRO of the schema's canonical form, 8 bytes, little endian. Docs, defaults, logical types don't count."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def versions(folder: Path = FOLDER) -> list[SchemaVersion]:
    """Every version in the lock, oldest first within an event. SchemaError if the lock is missing or not sound."""
    try:
        lock: dict[str, dict[str, str]] = json.loads((folder / LOCK).read_text())
    except FileNotFoundError as error:
        raise SchemaError(f"{folder / LOCK} is missing; run: python -m pipeline.log.schemas") from error
    names = {folder_of(name): name for name in (*EVENTS, Member.__name__)}
    found, taken = [], dict[bytes, str]()
    for path, pins in lock.items():
        event, version = path.removesuffix(".avsc").split("/v")
        made = SchemaVersion(names[event], int(version), bytes.fromhex(pins["fingerprint"]), pins["sha256"])
        if made.fingerprint in taken:
            raise SchemaError(f"{path} and {taken[made.fingerprint]} have one fingerprint, {made.fingerprint.hex()}")
        taken[made.fingerprint] = path
        found.append(made)
    return sorted(found, key=lambda v: (v.event, v.version))


def read_schema(event: str, version: int, folder: Path = FOLDER) -> Any:
    """A version's schema, parsed for reading values: without logical types, so that a time stays a number."""
    text = (folder / folder_of(event) / f"v{version}.avsc").read_text()
    return parse_schema(without_logical_types(json.loads(text)))


def without_logical_types(schema: Any) -> Any:
    """The schema with each value as Avro stores it."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: without_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    return schema


def verify(folder: Path = FOLDER) -> None:
    """SchemaError if a file isn't the one that the lock pins, or isn't in the lock."""
    pinned = {f"{folder_of(v.event)}/v{v.version}.avsc": v for v in versions(folder)}
    there = {str(path.relative_to(folder)) for path in folder.glob("*/v*.avsc")}
    if there != set(pinned):
        raise SchemaError(f"{folder}: files and lock differ in {sorted(there ^ set(pinned))}")
    for path, version in pinned.items():
        content = (folder / path).read_bytes()
        if hashlib.sha256(content).hexdigest() != version.sha256:
            raise SchemaError(f"{folder / path} was edited; a schema never changes: restore it and add a new version")
        if avro_fingerprint(json.loads(content)) != version.fingerprint:
            raise SchemaError(f"{folder / path}: the lock has another Avro fingerprint")


def write_missing(folder: Path = FOLDER) -> list[Path]:
    """Write version 1 of each event that has no schema yet, and the lock of all files. Returns what was written."""
    written = []
    classes: list[type[Any]] = [*EVENTS.values(), Member]
    for cls in classes:
        path = folder / folder_of(cls.__name__) / "v1.avsc"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(schema_of(cls), indent=2) + "\n")
            written.append(path)
    lock = {str(path.relative_to(folder)): _pins(path) for path in sorted(folder.glob("*/v*.avsc"))}
    (folder / LOCK).write_text(json.dumps(lock, indent=2) + "\n")
    versions(folder)
    return written


def _pins(path: Path) -> dict[str, str]:
    content = path.read_bytes()
    return {
        "fingerprint": avro_fingerprint(json.loads(content)).hex(),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def event_class(name: str) -> type[Event]:
    """The class of an event by its name."""
    return EVENTS[name]


if __name__ == "__main__":
    for new in write_missing():
        print(new)  # the command's result
    verify()
