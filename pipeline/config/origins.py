"""Where each value of a configuration comes from: a line of a file, an override, or a default."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml
from pydantic import BaseModel

from pipeline.config.errors import Path, Problem
from pipeline.config.errors import dotted as path_text
from pipeline.config.files import Document
from pipeline.config.models import DecisionConfig

DEFAULT: Final = "default"
REDACTED: Final = "***"
ON_FAILURE: Final = "TAMIS_ON_FAILURE"
_SECRET = re.compile(
    r"(?i)(^|[-_])((api|access|secret|private|signing|account)[-_]?keys?|passw(or)?d|pwd|secrets?|tokens?|credentials?|"
    r"authorization|cookies?)$"
)
_NO_SECRET = re.compile(r"(?i)((max|min|num|prompt|response|new)[-_].*tokens?|^tokens)$")
_WITH_PASSWORD = re.compile(r"((?<!\w)\w+://)[^/@\s]+@")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


class Setting(NamedTuple):
    """A value that holds, as a file would have it, and where it comes from. Secrets are REDACTED."""

    path: Path
    value: Any
    origin: str


def settings(config: DecisionConfig, source: Document) -> Iterator[Setting]:
    """Every value of a configuration, in the order of its sections."""
    for path, value in _leaves(config, ()):
        hidden = is_secret(path[-1]) and value is not None
        shown = REDACTED if hidden else _without_passwords(value)
        yield Setting(path, shown, _origin(path, source, hidden or shown != value or _has_secret(value)))


def is_secret(key: str | int) -> bool:
    """Whether a key's name says that its value is nobody's business."""
    return isinstance(key, str) and bool(_SECRET.search(key)) and not _NO_SECRET.search(key)


def exposed_secrets(config: DecisionConfig) -> Iterator[Problem]:
    """Options that look like secrets: whoever can read the log would see them."""
    for path, value in _leaves(config, ()):
        if value is not None and (is_secret(path[-1]) or _without_passwords(value) != value or _has_secret(value)):
            message = "looks like a secret, and options are recorded in the log; read it from the environment instead"
            yield Problem("secret_recorded", path, message)


def as_yaml(found: Iterator[Setting]) -> str:
    """A file that gives the same configuration; what stands behind each value says where it comes from."""
    lines: list[tuple[str, str]] = []
    open_path: Path = ()
    for path, value, origin in found:
        shared = len([1 for a, b in zip(path[:-1], open_path, strict=False) if a == b])
        for depth in range(shared, len(path) - 1):
            lines.append((f"{_indent(path, depth)}:", ""))
        open_path = path[:-1]
        lines.append((f"{_indent(path, len(path) - 1)}: {_inline(value)}", origin))
    width = min(max((len(text) for text, origin in lines if origin), default=0), 60)
    return "\n".join(f"{text:<{width}}  # {origin}" if origin else text for text, origin in lines)


def _leaves(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Sections and mappings of names are gone into; lists, options and plain values are taken whole."""
    match node:
        case BaseModel():
            for name, field in type(node).model_fields.items():
                value = getattr(node, name)
                key = field.alias or name
                timed = name.endswith("_ms") and isinstance(value, int)
                yield from _leaves(_duration(value) if timed else value, (*path, key))
        case Mapping() if node:
            for key, value in node.items():
                yield from _leaves(value, (*path, str(key)))
        case tuple() | list():
            yield path, [_plain(item) for item in node]
        case _:
            yield path, {} if isinstance(node, Mapping) else node


def _plain(node: Any) -> Any:
    match node:
        case BaseModel():
            return {f.alias or n: _plain(getattr(node, n)) for n, f in type(node).model_fields.items()}
        case Mapping():
            return {key: REDACTED if is_secret(key) else _plain(value) for key, value in node.items()}
        case str():
            return _without_passwords(node)
        case tuple() | list():
            return [_plain(item) for item in node]
    return node


def _without_passwords(value: Any) -> Any:
    """Addresses without what stands before their @."""
    return _WITH_PASSWORD.sub(rf"\1{REDACTED}@", value) if isinstance(value, str) else value


def _has_secret(value: Any) -> bool:
    """Whether something in a list was hidden."""
    return isinstance(value, list) and REDACTED in json.dumps(value, default=str)


def _origin(path: Path, source: Document, hidden: bool) -> str:
    """A key that isn't in the tree, or is null there, has its default. What is hidden isn't told by its origin."""
    node: Any = source.tree
    for part in path:
        if not isinstance(node, dict) or node.get(part) is None:
            asked = os.environ.get(ON_FAILURE) if path[-1] == "on_failure" else None
            return ON_FAILURE if asked else DEFAULT
        node = node[part]
    place = source.place(path) or DEFAULT
    return f"override {path_text(path)}" if hidden and place.startswith("override ") else place


def _duration(ms: int) -> str:
    unit, size = next((unit, size) for unit, size in _UNITS if ms % size == 0)
    return f"{ms // size}{unit}"


def _indent(path: Path, depth: int) -> str:
    return f"{'  ' * depth}{_inline(str(path[depth]))}"


def _inline(value: Any) -> str:
    """A value on one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
