"""From a file to a checked configuration; every error with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path as File
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipeline.config.check import check
from pipeline.config.errors import ConfigError, Path, Problem, nearest, shown
from pipeline.config.files import Document, document, read
from pipeline.config.models import DecisionConfig
from pipeline.config.selection import DEFAULT_TYPE

M = TypeVar("M", bound=BaseModel)


def load(path: str | File, overrides: Sequence[str] = ()) -> DecisionConfig:
    """The configuration in a file, with `key.path=value` set over it. Raises ConfigError with all problems."""
    return load_with_source(path, overrides)[0]


def load_with_source(path: str | File, overrides: Sequence[str] = ()) -> tuple[DecisionConfig, Document]:
    """The same, and what the file and the overrides said."""
    source = read(path)
    for assignment in overrides:
        source.override(assignment)
    return checked(source), source


def parse(tree: Mapping[str, Any], name: str | None = None) -> DecisionConfig:
    """The same for a configuration that is already in memory."""
    return checked(document(tree, name))


def validated(model: type[M], source: Document) -> M:
    """The model made of a document, without checks across fields."""
    try:
        return model.model_validate(source.tree)
    except ValidationError as error:
        raise ConfigError(list(_problems(error, source))) from None


def checked(source: Document) -> DecisionConfig:
    """The configuration that a document says. Raises ConfigError with all problems."""
    config = validated(DecisionConfig, source)
    problems = check(config)
    if problems:
        raise ConfigError([Problem(p.name, p.path, p.message, source.place(p.path)) for p in problems])
    return config


def _problems(error: ValidationError, source: Document) -> Iterator[Problem]:
    for found in error.errors(include_url=False):
        kind, context = found["type"], found.get("ctx", {})
        path = _path(found["loc"], source.tree)
        if kind == "union_tag_invalid":
            path = (*path, "type")
        if kind == "default_factory_not_called":
            continue
        if kind == "unknown_key":
            for key, hint in context["unknown"].items():
                at = (*path, key)
                yield Problem(kind, at, f"unknown key {key!r}; {hint}", source.place(at))
        else:
            yield Problem(kind, path, _message(kind, found["msg"], found["input"], context), source.place(path))


def _message(kind: str, message: str, value: Any, context: Mapping[str, Any]) -> str:
    expected = message.replace("Input should be", "expected").replace("String should", "it should")
    match kind:
        case "missing":
            return "is missing; add it"
        case "string_type":
            return f"is {shown(value)}; expected text: quote it"
        case "union_tag_not_found":
            return f"is {shown(value)}; expected keys and values, `type` among them"
        case "union_tag_invalid":
            tags = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
            return f"unknown type {context['tag']!r}; {nearest(context['tag'], tags)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"is {shown(value)}; expected keys and values"
        case "tuple_type":
            return f"is {shown(value)}; expected a list"
        case "too_short":
            return f"is {shown(value)}; expected at least {context['min_length']} of them"
        case "string_pattern_mismatch":
            return f"is {shown(value)}; expected text that matches {context['pattern'].replace(chr(92) + 'z', '$')}"
        case "int_type" | "float_type" | "bool_type":
            return f"is {shown(value)}, {_kind(value)}; {expected}"
    if message.startswith(shown(value)):
        return message
    return expected if shown(value) in expected else f"is {shown(value)}; {expected}"


def _kind(value: Any) -> str:
    kinds = {str: "text", bool: "true or false", float: "a number with a point", list: "a list", dict: "a mapping"}
    return kinds.get(type(value), type(value).__name__)


def _path(location: Iterable[str | int], tree: Any) -> Path:
    """A location without the parts that only pydantic knows, such as the tag of a union."""
    parts, path, node = list(location), [], tree
    for index, part in enumerate(parts):
        inside = isinstance(node, dict) and part in node
        if inside or (isinstance(node, list) and isinstance(part, int) and part < len(node)):
            path.append(part)
            node = node[part]
        elif (
            index == len(parts) - 1
            and part != "[key]"
            and isinstance(node, dict)
            and part not in (node.get("type"), DEFAULT_TYPE)
        ):
            path.append(part)
    return tuple(path)
