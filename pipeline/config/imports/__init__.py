"""Turns a configuration of ROLL, RAGEN or MILES into one of Tamis that decides the same, and says what it can't."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from pipeline.config.errors import ConfigError, Path
from pipeline.config.imports.answers import COUNTS, Left, Setting
from pipeline.config.imports.carry import draft, problem_text, tree_of
from pipeline.config.imports.foreign import Foreign, read_foreign
from pipeline.config.imports.miles import MILES
from pipeline.config.imports.ragen import RAGEN
from pipeline.config.imports.roll import ROLL
from pipeline.config.imports.table import System
from pipeline.config.imports.written import yaml_text
from pipeline.config.load import parse

SYSTEMS = {"roll": ROLL, "ragen": RAGEN, "miles": MILES}


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a configuration."""

    system: System
    source: str
    settings: dict[Path, Setting]
    left: list[Left]

    @property
    def tree(self) -> dict[str, Any]:
        """The configuration."""
        return tree_of(self.settings)

    @property
    def carried(self) -> list[Setting]:
        """The settings that the file itself gives."""
        return [setting for setting in self.settings.values() if setting.given]

    @property
    def to_write(self) -> list[Setting]:
        """The settings that are placeholders."""
        return [setting for setting in self.settings.values() if setting.origin.startswith("TO WRITE")]

    @property
    def lost(self) -> list[Left]:
        """The keys whose loss can change what is decided."""
        return [one for one in self.left if one.fate in COUNTS]

    def problems(self) -> list[str]:
        """Why no run can be made of it, were the placeholders filled in."""
        try:
            parse(self.tree)
        except ConfigError as error:
            return [problem_text(problem) for problem in error.problems]
        return []

    def text(self) -> str:
        """The configuration as YAML, with the origin of each line."""
        title = [
            f"Imported from {File(self.source).name}, a configuration of {self.system.name}.",
            "Write what is TO WRITE, then ask `tamis config check` whether a run can be made of it.",
        ]
        return yaml_text(title, self.settings, self.left)


def import_config(system: str, path: str | File, overrides: tuple[str, ...] = ()) -> Imported:
    """Carry over the configuration in a file, with `key=value` set over it first. Raises ConfigError if it can't be
    read."""
    return imported(SYSTEMS[system], read_foreign(path, overrides))


def imported(system: System, file: Foreign) -> Imported:
    """The same for a configuration that has been read."""
    made = draft(system, file)
    return Imported(system, file.name, made.settings, made.left)


__all__ = ["SYSTEMS", "Imported", "import_config", "imported"]
