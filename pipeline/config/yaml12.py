"""Reads YAML into plain values, and remembers the line of each.

Scalars are those of YAML 1.2's core schema, not PyYAML's: `1e-8` is a number; `no`, `on`, `12:30`, `2026-03-01` and
`2026_03_01` are text. `1_000` is 1000, as in TOML (groups of three digits). `010`, `.nan` and `.inf` are refused, and
so are duplicate keys, keys that aren't text, aliases and tags of one's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import yaml

from pipeline.config.errors import ConfigError, Path, shown

_CORE = "tag:yaml.org,2002:"
_LEADING_ZERO, _NOT_FINITE = "!leading-zero", "!not-finite"
_SCALARS = {
    f"{_CORE}null": r"~|null|Null|NULL|",
    f"{_CORE}bool": r"true|True|TRUE|false|False|FALSE",
    f"{_CORE}int": r"[-+]?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:_[0-9]{3})+)|0o[0-7]+|0x[0-9a-fA-F]+",
    _LEADING_ZERO: r"[-+]?0[0-9_]*[0-9]",
    f"{_CORE}float": r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
    _NOT_FINITE: r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
_VALUES: dict[str, Callable[[str], Any]] = {
    f"{_CORE}str": str,
    f"{_CORE}null": lambda text: None,
    f"{_CORE}bool": lambda text: text.lower() == "true",
    f"{_CORE}int": lambda text: int(text, 0),
    f"{_CORE}float": float,
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for _tag, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), None)


def parse_yaml(text: str, name: str, places: dict[Path, str]) -> Any:
    """The value of one YAML document; `places` takes the place of each path, as `name:line`."""
    try:
        node = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise ConfigError.of("not_yaml", error.problem or str(error), where=where) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError.of("not_yaml", str(error), where=name) from error
    return None if node is None else _Reader(name, places).value(node, ())


class _Reader:
    """Turns YAML nodes into values."""

    def __init__(self, name: str, places: dict[Path, str]) -> None:
        self._name = name
        self._places = places
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, path: Path) -> Any:
        if id(node) in self._seen:
            raise self._error(node, "alias", path, "aliases are refused; write the value out")
        self._seen.add(id(node))
        self._places.setdefault(path, self._place(node))
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, path)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            case yaml.ScalarNode():
                return self._scalar(node, path)
        raise self._error(node, "unknown_tag", path, f"the tag {node.tag} is refused; leave it out")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key, item in node.value:
            if key.tag != f"{_CORE}str":
                raise self._error(key, "key_not_text", path, f"the key {shown(key.value)} is not text; quote it")
            at = (*path, key.value)
            if key.value in tree:
                raise self._error(key, "duplicate_key", at, f"given before at {self._places[at]}; keep one")
            self._places[at] = self._place(key)
            tree[key.value] = self.value(item, at)
        return tree

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = node.value
        if node.tag == _LEADING_ZERO:
            message = f"{text} begins with 0; write {int(text.replace('_', ''))}, or quote it if it is text"
            raise self._error(node, "leading_zero", path, message)
        if node.tag not in _VALUES and node.tag != _NOT_FINITE:
            raise self._error(node, "unknown_tag", path, f"the tag {node.tag} is refused; leave it out")
        try:
            value = math.nan if node.tag == _NOT_FINITE else _VALUES[node.tag](text)
        except ValueError as error:
            raise self._error(node, "bad_scalar", path, f"{shown(text)}: {error}; leave the tag out") from error
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(node, "not_finite", path, f"{text} is refused; expected a finite number")
        return value

    def _place(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"

    def _error(self, node: yaml.Node, name: str, path: Path, message: str) -> ConfigError:
        return ConfigError.of(name, message, path, self._place(node))
