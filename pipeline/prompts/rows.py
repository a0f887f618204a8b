"""Reads a file of JSON objects, one a line. Whatever is wrong is named by file, physical line and field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config.errors import nearest, shown
from pipeline.prompts.task import BadTask, grading_bytes, is_weight
from pipeline.sdk import Task, VerifierBinding

_FIELDS = ("id", "prompt", "target", "verifiers", "domain", "metadata")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class BadRow(ValueError):
    """A line that can't be used."""


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt as the file gives it; its task has no token ids yet."""

    task: Task
    domain: str
    line: int


def read_rows(path: Path, domain: str, verifier: str) -> Iterator[Row]:
    """The rows of a file. `domain` is for those that name none, `verifier` for those with just a target."""
    seen: dict[str, int] = {}
    for line, text in _lines(path):
        where = f"{path}:{line}"
        row = _Fields(_object(text, where), where).row(domain, verifier, line)
        if row.task.id in seen:
            raise BadRow(f"{where}: id: {row.task.id!r} is that of line {seen[row.task.id]} too; ids must differ")
        seen[row.task.id] = line
        yield row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    start = 0
    with path.open("rb") as file:
        for line, raw in enumerate(file, 1):
            if line == 1 and (raw.startswith(_UTF16) or b"\0" in raw[:4]):
                raise BadRow(f"{path}:1: the file is UTF-16 or UTF-32; save it as UTF-8")
            try:
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8").strip(" \t\r\n")
            except UnicodeDecodeError as error:
                at = f"byte {error.start + 1} of the line, {start + error.start} from the start of the file"
                raise BadRow(f"{path}:{line}: 0x{raw[error.start]:02x} at {at} is not UTF-8; mend it") from error
            if text:
                yield line, text
            start += len(raw)


def _object(text: str, where: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in pairs:
            if key in made:
                raise BadRow(f"{where}: {key}: given twice in one object; keep one")
            made[key] = value
        return made

    try:
        found = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise BadRow(f"{where}: not JSON at column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise BadRow(f"{where}: nested too deeply") from error
    if not isinstance(found, dict):
        raise BadRow(f"{where}: {shown(found)} is no object; expected {{...}}")
    return found


class _Fields:
    """The fields of one row, checked."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self._fields = fields
        self._where = where

    def row(self, domain: str, verifier: str, line: int) -> Row:
        for key in self._fields:
            if key not in _FIELDS:
                raise self._error(key, f"unknown field; {nearest(key, _FIELDS)}. What else you need goes into metadata")
        name, prompt = self._text("id", self._fields), self._text("prompt", self._fields)
        domain = self._text("domain", self._fields) if "domain" in self._fields else domain
        task = Task(name, prompt, (), self._bindings(verifier), self._metadata())
        try:
            prompt.encode()
            grading_bytes(task)
        except (UnicodeEncodeError, BadTask) as error:
            raise BadRow(f"{self._where}: {error}") from error
        return Row(task, domain, line)

    def _bindings(self, verifier: str) -> tuple[VerifierBinding, ...]:
        if ("target" in self._fields) == ("verifiers" in self._fields):
            raise self._error("target", "expected either `target` or `verifiers`")
        if "target" in self._fields:
            return (VerifierBinding(verifier, self._target(self._fields["target"], "target")),)
        given = self._fields["verifiers"]
        if not isinstance(given, list) or not given:
            raise self._error("verifiers", f"is {shown(given)}; expected a list of {{name, target, weight}}")
        return tuple(self._binding(item, f"verifiers[{index}]") for index, item in enumerate(given))

    def _binding(self, item: Any, at: str) -> VerifierBinding:
        if not isinstance(item, dict):
            raise self._error(at, f"is {shown(item)}; expected {{name, target, weight}}")
        for key in item:
            if key not in ("name", "target", "weight"):
                raise self._error(f"{at}.{key}", f"unknown field; {nearest(key, ('name', 'target', 'weight'))}")
        if "target" not in item:
            raise self._error(f"{at}.target", "is missing")
        weight = item.get("weight", 1.0)
        if not is_weight(weight):
            raise self._error(f"{at}.weight", f"is {shown(weight)}; expected a finite number")
        name = self._text("name", item, f"{at}.")
        return VerifierBinding(name, self._target(item["target"], f"{at}.target"), float(weight))

    def _target(self, value: Any, at: str) -> str:
        """Text as it is; an object as compact JSON with sorted keys, for verifiers that take several arguments."""
        if isinstance(value, str):
            return value
        if not isinstance(value, dict):
            raise self._error(at, f"is {shown(value)}; expected text (quote it) or an object")
        try:
            return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        except ValueError as error:
            raise self._error(at, f"{error}; expected finite numbers") from error

    def _metadata(self) -> Mapping[str, Any]:
        value = self._fields.get("metadata", {})
        if not isinstance(value, dict):
            raise self._error("metadata", f"is {shown(value)}; expected an object")
        return value

    def _text(self, key: str, fields: Mapping[str, Any], prefix: str = "") -> str:
        if key not in fields:
            raise self._error(prefix + key, "is missing")
        value = fields[key]
        if not isinstance(value, str) or not value:
            raise self._error(prefix + key, f"is {shown(value)}; expected text that isn't empty")
        return value

    def _error(self, at: str, message: str) -> BadRow:
        return BadRow(f"{self._where}: {at}: {message}")
