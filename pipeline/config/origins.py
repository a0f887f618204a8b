"""Where each value of a configuration comes from: a line of a file, an override, or a default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml
from pydantic import BaseModel

from pipeline.config.errors import Path, Problem
from pipeline.config.files import Document
from pipeline.config.models import DecisionConfig

DEFAULT: Final = "default"
REDACTED: Final = "***"
_SECRET = re.compile(r"(?i)(api_?key|password|passwd|secret|token|credentials?)$")
_NO_SECRET = re.compile(r"(?i)(max|min|num)_?.*tokens?$")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


class Setting(NamedTuple):
    """A value that holds, as a file would have it, and where it comes from. Secrets are REDACTED."""

    path: Path
    value: Any
    origin: str


def settings(config: DecisionConfig, source: Document) -> Iterator[Setting]:
    """Every value of a configuration, in the order of its sections."""
    for path, value in _leaves(config, ()):
        shown = REDACTED if is_secret(path[-1]) and isinstance(value, str) else value
        yield Setting(path, shown, _origin(path, source))


def is_secret(key: str | int) -> bool:
    """Whether a key's name says that its value is nobody's business."""
    return isinstance(key, str) and bool(_SECRET.search(key)) and not _NO_SECRET.search(key)


def exposed_secrets(config: DecisionConfig) -> Iterator[Problem]:
    """Options that look like secrets: whoever can read the log would see them."""
    for path, value in _leaves(config, ()):
        if is_secret(path[-1]) and isinstance(value, str):
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
        case tuple():
            yield path, [_plain(item) for item in node]
        case _:
            yield path, {} if isinstance(node, Mapping) else node


def _plain(node: Any) -> Any:
    match node:
        case BaseModel():
            return {f.alias or n: _plain(getattr(node, n)) for n, f in type(node).model_fields.items()}
        case Mapping():
            return {key: REDACTED if is_secret(key) else _plain(value) for key, value in node.items()}
        case tuple() | list():
            return [_plain(item) for item in node]
    return node


def _origin(path: Path, source: Document) -> str:
    """A key that isn't in the tree, or is null there, has its default."""
    node: Any = source.tree
    for part in path:
        if not isinstance(node, dict) or node.get(part) is None:
            return DEFAULT
        node = node[part]
    return source.place(path) or DEFAULT


def _duration(ms: int) -> str:
    unit, size = next((unit, size) for unit, size in _UNITS if ms % size == 0)
    return f"{ms // size}{unit}"


def _indent(path: Path, depth: int) -> str:
    return f"{'  ' * depth}{_inline(str(path[depth]))}"


def _inline(value: Any) -> str:
    """A value on one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
