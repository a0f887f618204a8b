"""OmegaConf's `${…}`: what refers to a value in the same file is looked up; for anything else it is said what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]

_REFERENCE = re.compile(r"(?<!\\)\$\{([^${}]*)\}")
_NODE = re.compile(r"\.*[A-Za-z_0-9][\w.\-\[\]]*\Z")


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A value that the file alone doesn't tell."""

    text: str
    why: str

    def __str__(self) -> str:
        return self.text


class _Stuck(Exception):
    """Why a reference can't be resolved."""


def resolved(tree: dict[str, Any]) -> tuple[dict[str, Any], frozenset[Path]]:
    """The tree with every reference looked up, or Unresolved; and the paths that were looked up."""
    used: set[Path] = set()

    def all_of(node: Any, at: Path) -> Any:
        if isinstance(node, dict):
            return {key: all_of(item, (*at, key)) for key, item in node.items()}
        try:
            return _Lookup(tree, used).value(node, at, ())
        except _Stuck as stuck:
            return Unresolved(str(node), str(stuck))

    made = all_of(tree, ())
    return made if isinstance(made, dict) else {}, frozenset(used)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Looks references up in a tree."""

    tree: dict[str, Any]
    used: set[Path]

    def value(self, value: Any, at: Path, asked: tuple[str, ...]) -> Any:
        """A value with its references replaced; `asked`: the references that led here."""
        if isinstance(value, list):
            return [self.value(item, at, asked) for item in value]
        if isinstance(value, dict):
            return {key: self.value(item, (*at, key), asked) for key, item in value.items()}
        if not isinstance(value, str) or "${" not in value:
            return value
        if whole := _REFERENCE.fullmatch(value):
            return self._looked_up(whole[1], at, asked)
        text = _REFERENCE.sub(lambda found: str(self._looked_up(found[1], at, asked)), value)
        if re.search(r"(?<!\\)\$\{", text):
            raise _Stuck("it nests `${…}`; write the value in its place")
        return text.replace("\\${", "${")

    def _looked_up(self, reference: str, at: Path, asked: tuple[str, ...]) -> Any:
        reference = reference.strip()
        name = reference.partition(":")[0]
        if name == "oc.env":
            raise _Stuck("it is in the environment, which is not read; write the value in its place")
        if not _NODE.match(reference):
            raise _Stuck(f"`{name}` is computed when the program starts; write the value in its place")
        if reference in asked:
            raise _Stuck("it refers to itself; write the value in its place")
        if len(asked) > 50:
            raise _Stuck("it refers too far; write the value in its place")
        path = _absolute(reference, at)
        self.used.add(path)
        node: Any = self.tree
        for part in path:
            if not isinstance(node, dict) or part not in node:
                raise _Stuck(f"{'.'.join(path)} is not in this file; write the value in its place")
            node = node[part]
        return self.value(node, path, (*asked, reference))


def _absolute(reference: str, at: Path) -> Path:
    """Leading dots count from the mapping that holds the key: one for it, two for the one above."""
    dots = len(reference) - len(reference.lstrip("."))
    parts = tuple(part for part in re.split(r"[.\[\]]+", reference[dots:]) if part)
    return parts if dots == 0 else (*at[: max(len(at) - dots, 0)], *parts)
