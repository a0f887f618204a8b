"""Reads another system's configuration as that system would: YAML 1.1 as OmegaConf has it, or TOML; overrides; `${…}`.

What the file alone can't answer (the environment, files that `defaults` names, resolvers of their own code) becomes an
`Unresolved`, with what to do.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import yaml

from pipeline.config.errors import ConfigError, dotted, shown
from pipeline.config.imports.interpolation import Unresolved, resolved

Key = tuple[str, ...]

MOST_KEYS = 100_000


class _Loader(yaml.SafeLoader):
    """YAML 1.1 but for two scalars: `1e-6` is a number, and a date is text. A key twice is an error."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        """As it is written, before `<<` brings in what its own keys may override."""
        node = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key in [
            key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge")
        ]:
            if key.value in seen:
                told = f"{key.value}: given before, in line {seen[key.value]}; keep one"
                raise yaml.constructor.ConstructorError(None, None, told, key.start_mark)
            seen[key.value] = key.start_mark.line + 1
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith((":float", ":timestamp"))]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
    list("-+0123456789."),
)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A configuration of another system. Keys are text, and a list's items are keyed by their place."""

    name: str
    tree: dict[str, Any]
    values: dict[Key, Any] = field(default_factory=dict)
    """All leaves: scalars, lists of scalars, empty mappings, in the file's order."""
    used: frozenset[Key] = frozenset()
    """What other keys refer to by `${…}`."""

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a dotted key; `default` where it is absent, null or not to be told from the file."""
        node: Any = self.tree
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return default if node is None or isinstance(node, Unresolved) else node

    def names(self, key: str) -> tuple[str, ...]:
        """The keys below a key."""
        node = self.get(key, {})
        return tuple(node) if isinstance(node, dict) else ()

    def number(self, key: str, default: Any = None) -> Any:
        """The number at a key; `default` where there is none."""
        found = self.get(key)
        return found if isinstance(found, int | float) and not isinstance(found, bool) else default


def read_foreign(path: str | File, overrides: tuple[str, ...] = ()) -> Foreign:
    """The configuration in a .yaml, .yml or .toml file, with `key=value` set over it. Raises ConfigError."""
    name, suffix = str(path), File(path).suffix.lower()
    try:
        text = File(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError.of("unreadable", f"{error.strerror}; check the path", where=name) from error
    except UnicodeDecodeError as error:
        raise ConfigError.of("not_utf8", f"byte {error.start} is not UTF-8", where=name) from error
    return foreign(text, name, suffix, overrides)


def foreign(text: str, name: str, suffix: str = ".yaml", overrides: tuple[str, ...] = ()) -> Foreign:
    """The same for a text. `suffix` tells its format."""
    if suffix not in (".yaml", ".yml", ".toml"):
        message = f"the suffix is {suffix!r}; expected .yaml, .yml (ROLL, RAGEN) or .toml (MILES)"
        raise ConfigError.of("unknown_format", message, where=name)
    found = _toml(text, name) if suffix == ".toml" else _yaml(text, name)
    if not isinstance(found, dict):
        raise ConfigError.of("not_a_mapping", f"the file holds {shown(found)}; expected keys and values", where=name)
    return of_values(found, name, overrides)


def of_values(found: dict[Any, Any], name: str, overrides: tuple[str, ...] = ()) -> Foreign:
    """The same for values that have been read."""
    tree = _tree(found, name)
    for assignment in overrides:
        _override(tree, assignment)
    tree, used = resolved(tree)
    return Foreign(name, tree, dict(_leaves(tree, ())), used)


def _yaml(text: str, name: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise ConfigError.of("not_yaml", error.problem or str(error), where=where) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError.of("not_yaml", str(error), where=name) from error


def _toml(text: str, name: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError.of("not_toml", str(error), where=name) from error


def _tree(found: dict[Any, Any], name: str) -> dict[str, Any]:
    """The same with text for keys, keys with dots taken apart, and lists of mappings by place."""
    seen = 0

    def plain(value: Any, inside: tuple[int, ...]) -> Any:
        nonlocal seen
        seen += 1
        if id(value) in inside or seen > MOST_KEYS:
            message = f"an alias makes it endless, or it has more than {MOST_KEYS:,} keys; write it out"
            raise ConfigError.of("endless", message, where=name)
        inside = (*inside, id(value))
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            return {str(place): plain(item, inside) for place, item in enumerate(value)}
        if not isinstance(value, dict):
            return value if isinstance(value, str | int | float | list | None) else str(value)
        tree: dict[str, Any] = {}
        for key, item in value.items():
            _put(tree, str(key).split("."), plain(item, inside))
        return tree

    made = plain(found, ())
    return made if isinstance(made, dict) else {}


def _put(tree: dict[str, Any], parts: list[str], value: Any) -> None:
    """Set a value, merging mappings, as both systems' readers do."""
    for part in parts[:-1]:
        if not isinstance(tree.get(part), dict):
            tree[part] = {}
        tree = tree[part]
    old = tree.get(parts[-1])
    if isinstance(old, dict) and isinstance(value, dict):
        for key, item in value.items():
            _put(old, [key], item)
    else:
        tree[parts[-1]] = value


def _override(tree: dict[str, Any], assignment: str) -> None:
    """Hydra's way to set a value (`key=value`, also `+key=value`) or to take a key away (`~key`)."""
    key, equals, text = assignment.strip().lstrip("+").partition("=")
    parts = key.strip().lstrip("~").split(".")
    where = f"override {assignment!r}"
    if "" in parts or (not equals and not key.startswith("~")):
        message = "expected key.path=value, such as rollout_batch_size=128"
        raise ConfigError.of("bad_override", message, where=where)
    if key.startswith("~"):
        node: Any = tree
        for part in parts[:-1]:
            node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.pop(parts[-1], None)
        return
    value = _yaml(text, where)
    _put(tree, parts, _tree({"v": value}, where)["v"])


def _leaves(value: Any, key: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, (*key, name))
    elif key:
        yield key, value


def key_text(key: Key) -> str:
    """`train_infer_correction.filters[0].ratio_low`"""
    return dotted(tuple(int(part) if part.isdecimal() else part for part in key))
