"""Applies the rows of a system to a configuration, in the file's order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from pipeline.config.errors import Path, Problem, dotted
from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.foreign import Foreign, Key, key_text
from pipeline.config.imports.interpolation import Unresolved
from pipeline.config.imports.table import Absent, Draft, Row, System


def draft(system: System, file: Foreign) -> Draft:
    """Carry a configuration over."""
    made = Draft(file, system.mode(file))
    given: set[str] = set()
    below: dict[str, list[Key]] = {}
    for key, value in file.values.items():
        row, names = _row(system, key)
        if row is None:
            _unknown(made, system, key, value)
            continue
        if value is None and row.rule:
            continue
        given.add(row.key)
        if row.key.endswith("**"):
            below.setdefault(row.key, []).append(key)
        else:
            _apply(made, row, At(key_text(key), value, names, file))
    for row in system.rows:
        if row.key in below:
            made.refuse(_named(row, below[row.key]), None, row.fate, row.note)
        elif not isinstance(row.default, Absent) and row.key not in given and row.mode in ("", made.mode):
            _apply(made, row, At(row.key, row.default, (), file, system.whose))
    system.finish(made)
    return made


def _named(row: Row, keys: list[Key]) -> str:
    """Each of a few keys below a row's; of many only how many."""
    above = row.key.removesuffix(".**")
    return f"{above} ({len(keys)} keys)" if len(keys) > 3 else ", ".join(map(key_text, keys))


def _unknown(made: Draft, system: System, key: Key, value: Any) -> None:
    if any(key[: len(used)] == used for used in made.file.used):
        made.refuse(key_text(key), value, "not_needed", "it stands where other keys refer to it")
    else:
        why = f"this import doesn't know it; if it decides something in {system.name}, add it by hand"
        made.refuse(key_text(key), value, "unknown", why)


def _row(system: System, key: Key) -> tuple[Row | None, tuple[str, ...]]:
    for row in system.rows:
        names = row.names(key)
        if names is not None:
            return row, names
    return None, ()


def _apply(made: Draft, row: Row, at: At) -> None:
    if row.rule is None:
        made.refuse(at.key, at.value, row.fate, row.note)
    elif isinstance(at.value, Unresolved):
        made.refuse(at.key, at.value, "unresolved", at.value.why)
    else:
        try:
            for setting in row.rule(at):
                _settle(made, setting)
        except NotCarried as refused:
            made.refuse(at.key, at.value, refused.fate, refused.why)


def _settle(made: Draft, setting: Setting) -> None:
    """A default gives way to what the file says; two keys of the file that set the same are both named."""
    before = made.settings.get(setting.path)
    if before is not None and before.given and setting.given and before.origin != setting.origin:
        setting = replace(setting, origin=f"{setting.origin}; {before.origin}")
    if setting.given or before is None:
        made.settings[setting.path] = setting


def tree_of(settings: dict[Path, Setting]) -> dict[str, Any]:
    """The settings as a configuration."""
    tree: dict[str, Any] = {}
    for path, setting in settings.items():
        node: Any = tree
        for part, following in pairwise(path):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(node, list):
                while len(node) <= int(part):
                    node.append({})
                node = node[int(part)]
            else:
                node = node.setdefault(part, empty)
        node[path[-1]] = setting.value
    return tree


def problem_text(problem: Problem) -> str:
    """A problem of the result, without the name of a file that isn't written yet."""
    return f"{dotted(problem.path)}: {problem.message} [{problem.name}]"
