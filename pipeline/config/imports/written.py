"""Writes an imported configuration as YAML: each value with where it comes from, and at the end what isn't carried."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.config.errors import Path
from pipeline.config.imports.answers import Left, Setting
from pipeline.config.imports.carry import tree_of
from pipeline.config.models import DecisionConfig

WIDTH = 110
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def yaml_text(title: Sequence[str], settings: Mapping[Path, Setting], left: Sequence[Left]) -> str:
    """The file."""
    order = [f.alias or name for name, f in DecisionConfig.model_fields.items()]
    tree = tree_of(dict(settings))
    lines = [f"# {line}" for line in title]
    for name in sorted(tree, key=lambda name: order.index(name) if name in order else len(order)):
        lines += _entry(name, tree[name], (name,), settings, "")
    if left:
        lines += ["", "# Not carried over, or not wholly:"]
        for one in left:
            told = f"{one.key}: {one.value}" if one.value is not None else one.key
            lines += textwrap.wrap(
                _shown(f"{told} - {one.why}"),
                WIDTH,
                initial_indent="#   ",
                subsequent_indent="#     ",
                break_on_hyphens=False,
            )
    return "\n".join([*lines, ""])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(_shown(text), WIDTH, initial_indent="#   ", subsequent_indent="#     ", break_on_hyphens=False)


def _entry(name: str, value: Any, path: Path, settings: Mapping[Path, Setting], indent: str) -> Iterator[str]:
    """The lines of `name: value`."""
    if path in settings or not isinstance(value, dict | list):
        yield _line(f"{indent}{_scalar(name)}: {_scalar(value)}", settings.get(path))
        return
    yield f"{indent}{_scalar(name)}:"
    yield from _below(value, path, settings, indent + "  ")


def _below(value: Any, path: Path, settings: Mapping[Path, Setting], indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _entry(name, item, (*path, name), settings, indent)
        return
    for place, item in enumerate(value):
        first = True
        for line in _below(item, (*path, place), settings, indent + "  "):
            yield f"{indent}- {line[len(indent) + 2 :]}" if first else line
            first = False


def _line(text: str, setting: Setting | None) -> str:
    return f"{text:<42}  # {_shown(setting.origin)}" if setting else text


def _shown(text: str) -> str:
    """A text as a comment may hold it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _scalar(value: Any) -> str:
    """A value as both YAML 1.1 and 1.2 read it alike."""
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)
