"""A task as bytes: in events whole, in a payload the part that scoring needs. Compact JSON, keys sorted, UTF-8."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.sdk import Task, VerifierBinding


class BadTask(ValueError):
    """A task that can't be written, or bytes that hold none."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """What a scorer needs of a task."""

    id: str
    verifiers: tuple[VerifierBinding, ...]
    metadata: Mapping[str, Any]


def encode(task: Task) -> bytes:
    """The bytes of a task. Raises BadTask if it holds what JSON can't, or a weight that isn't a finite number."""
    return _bytes(_grading(task) | {"text": task.text, "tokens": [int(token) for token in task.token_ids]}, task.id)


def decode(encoded: bytes) -> Task:
    """The task again. Raises BadTask."""
    fields = _fields(encoded)
    rubric = _rubric(fields)
    text, tokens = fields.get("text"), fields.get("tokens")
    if not isinstance(text, str) or not isinstance(tokens, list) or any(type(token) is not int for token in tokens):
        raise BadTask(f"task {rubric.id!r}: expected a text, and tokens that are whole numbers")
    return Task(rubric.id, text, tuple(tokens), rubric.verifiers, rubric.metadata)


def grading_bytes(task: Task) -> bytes:
    """What goes into a payload for the scorer: id, verifiers and metadata, without text and token ids."""
    return _bytes(_grading(task), task.id)


def decode_grading(encoded: bytes) -> Rubric:
    """What `grading_bytes` wrote. Raises BadTask."""
    return _rubric(_fields(encoded))


def _grading(task: Task) -> dict[str, Any]:
    bindings = [{"name": v.name, "target": v.target, "weight": _weight(v, task.id)} for v in task.verifiers]
    return {"id": task.id, "verifiers": bindings, "metadata": dict(task.metadata)}


def _weight(binding: VerifierBinding, task_id: str) -> float:
    if not is_weight(binding.weight):
        raise BadTask(
            f"task {task_id!r}: the weight of {binding.name!r} is {binding.weight!r}; expected a finite number"
        )
    return float(binding.weight)


def is_weight(value: Any) -> bool:
    """Whether it is a finite number; true and false are none."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _bytes(fields: Mapping[str, Any], task_id: str) -> bytes:
    try:
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadTask(f"task {task_id!r} can't be written as JSON: {error}") from error


def _fields(encoded: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise BadTask(f"these bytes hold no task: {error}") from error
    if not isinstance(fields, dict):
        raise BadTask(f"these bytes hold a {type(fields).__name__}; expected the fields of a task")
    return fields


def _rubric(fields: Mapping[str, Any]) -> Rubric:
    try:
        bindings = tuple(VerifierBinding(v["name"], v["target"], v["weight"]) for v in fields["verifiers"])
        return Rubric(fields["id"], bindings, dict(fields["metadata"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadTask(f"these bytes hold no task: {error!r}") from error
