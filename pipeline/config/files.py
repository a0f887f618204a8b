"""Reads YAML and TOML files into plain values, remembers where each stood, and takes overrides."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from pipeline.config.errors import ConfigError, Path, Problem, shown
from pipeline.config.yaml12 import parse_yaml


@dataclass(slots=True)
class Document:
    """A mapping as a person wrote it. `places` has the file and line of each path, as far as known."""

    tree: dict[str, Any]
    name: str | None = None
    places: dict[Path, str] = field(default_factory=dict)

    def place(self, path: Path) -> str | None:
        """Where a path, or the nearest one above it, was written."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return self.name

    def override(self, assignment: str) -> None:
        """Set `key.path=value`; the value is read as YAML."""
        key, equals, text = assignment.partition("=")
        where = f"override {assignment!r}"
        path: Path = tuple(int(part) if part.isdecimal() else part for part in key.strip().split("."))
        if not equals or "" in path:
            raise ConfigError.of("bad_override", "expected key.path=value, such as seed=3", where=where)
        try:
            value = parse_yaml(text, where, {})
        except ConfigError as error:
            raise ConfigError([Problem(p.name, path + p.path, p.message, where) for p in error.problems]) from error
        path = _put(self.tree, path, value, where)
        self.places = {known: place for known, place in self.places.items() if known[: len(path)] != path}
        self.places[path] = where


def document(tree: Mapping[str, Any], name: str | None = None) -> Document:
    """A document made of values that didn't come from a file."""
    return Document(dict(tree), name)


def read(path: str | File) -> Document:
    """The document in a .yaml, .yml or .toml file."""
    name, suffix = str(path), File(path).suffix.lower()
    if suffix not in (".yaml", ".yml", ".toml"):
        raise ConfigError.of("unknown_format", f"the suffix is {suffix!r}; expected .yaml, .yml or .toml", where=name)
    try:
        text = File(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError.of("unreadable", f"{error.strerror}; check the path", where=name) from error
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8; save the file as UTF-8"
        raise ConfigError.of("not_utf8", message, where=name) from error
    places: dict[Path, str] = {}
    tree = _toml(text, name) if suffix == ".toml" else parse_yaml(text, name, places)
    if tree is None:
        raise ConfigError.of("not_a_mapping", "nothing is in it; expected keys and values", where=name)
    if not isinstance(tree, dict):
        raise ConfigError.of("not_a_mapping", f"the file holds {shown(tree)}; expected keys and values", where=name)
    return Document(tree, name, places)


def _put(tree: Any, path: Path, value: Any, where: str) -> Path:
    """Returns the path with `1` as text where it is a key."""
    node, taken = tree, list(path)
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(node, dict):
            part = taken[depth] = str(part)
            if last:
                node[part] = value
            elif node.get(part) is None:
                node[part] = {}
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            if last:
                node[part] = value
        else:
            raise ConfigError.of("bad_override", f"there is no such place; it is in {shown(node)}", path, where)
        node = node[part]
    return tuple(taken)


def _toml(text: str, name: str) -> Any:
    try:
        tree = tomllib.loads(text)
        _plain(tree, (), name)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: no TOML, or a number of thousands of digits
        raise ConfigError.of("not_toml", str(error), where=name) from error
    return tree


def _plain(value: Any, path: Path, name: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _plain(item, (*path, key), name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _plain(item, (*path, index), name)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError.of("not_finite", f"{value} is refused; expected a finite number", path, name)
    elif not isinstance(value, str | int | float):
        raise ConfigError.of("not_plain", f"{value} is a date or time; put quotes around it", path, name)
