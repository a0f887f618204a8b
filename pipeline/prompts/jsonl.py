"""Prompts from a JSON Lines file: one object a line, with id, prompt, and target or verifiers; domain and metadata if
wanted. A target is text, or an object that the verifier gets as JSON; never a number, which could not equal any text.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pipeline.config.files import document
from pipeline.config.load import validated
from pipeline.config.values import Name, Plugin
from pipeline.plugins import build
from pipeline.prompts.choosing import Choice, choose, told
from pipeline.prompts.order import Order
from pipeline.prompts.rows import BadRow, Row, read_rows
from pipeline.prompts.task import encode
from pipeline.sdk import Task


class Tokenizer(Protocol):
    """Turns a prompt's text into token ids."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids of the tokens."""
        ...


class JsonlOptions(Choice):
    """`domain`: of rows that name none. `verifier`: judges rows with just a target. No `tokenizer`: UTF-8 bytes. Those
    of `Choice` leave rows out."""

    path: str
    shuffle: bool = True
    domain: Name = "default"
    verifier: Name = "exact"
    tokenizer: Plugin | None = None


class JsonlPrompts:
    """A PromptSource. Each epoch has its own order, or the file's with `shuffle: false`. Options: `JsonlOptions`."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        chosen = validated(JsonlOptions, document(options, "options of JsonlPrompts"))
        self._rows: dict[str, list[Row]] = {}
        self.verifiers: dict[str, str] = {}
        """Every verifier that a row names, and where one first does."""
        self.left_out: Counter[str] = Counter()
        """Rows that are not used, by reason."""
        rows = read_rows(Path(chosen.path), chosen.domain, chosen.verifier)
        for row in choose(rows, chosen, chosen.path, self.left_out):
            self._rows.setdefault(row.domain, []).append(row)
            for binding in row.task.verifiers:
                self.verifiers.setdefault(binding.name, f"{chosen.path}:{row.line}")
        if not self._rows:
            why = f"all are left out: {told(self.left_out)}" if self.left_out else "expected one JSON object a line"
            raise BadRow(f"{chosen.path}: there are no prompts in it; {why}")
        self._orders = {name: Order(seed, name, len(rows), chosen.shuffle) for name, rows in self._rows.items()}
        self._tokenizer = _tokenizer(chosen, seed)
        self.content_hash = self._hash(seed, chosen)

    def domains(self) -> Sequence[str]:
        """The domains, in the order of their first rows."""
        return tuple(self._rows)

    def size(self, domain: str) -> int:
        """Prompts in one pass. Raises KeyError for a domain that the file has no rows of."""
        return len(self._rows[domain])

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        """The task at a place. Raises KeyError for another domain, IndexError for a place outside the pass."""
        task = self._rows[domain][self._orders[domain].at(ordinal, epoch)].task
        ids = tuple(task.text.encode()) if self._tokenizer is None else self._tokenizer.encode(task.text)
        return replace(task, token_ids=tuple(int(token) for token in ids))

    def _hash(self, seed: int, chosen: JsonlOptions) -> str:
        """Over the rows as they were understood, so a byte order mark or a blank line changes nothing."""
        rules = {"rule": "jsonl/1", "seed": seed, **chosen.model_dump(include={"shuffle", "tokenizer"})}
        digest = hashlib.sha256(json.dumps(rules, sort_keys=True).encode())
        for name, rows in self._rows.items():
            for row in rows:
                encoded = encode(row.task)
                digest.update(b"%s\0%d\0%s" % (name.encode(), len(encoded), encoded))
        return digest.hexdigest()


def _tokenizer(chosen: JsonlOptions, seed: int) -> Tokenizer | None:
    plugin = chosen.tokenizer
    if plugin is None:
        return None
    made: Tokenizer = build(plugin.factory, seed, plugin.options, "options.tokenizer.factory", Tokenizer)
    return made
