"""The configuration: what decides a run (DecisionConfig) and where a process runs (ProcessSettings)."""

from pipeline.config.canonical import (
    canonical,
    config_hash,
    filter_hashes,
    parse_canonical,
    source_hashes,
    written,
)
from pipeline.config.check import check, check_source
from pipeline.config.errors import ConfigError, Problem
from pipeline.config.load import load, parse
from pipeline.config.memory import cautions, resolve_budget
from pipeline.config.models import DecisionConfig
from pipeline.config.settings import ProcessSettings, load_settings

__all__ = [
    "ConfigError",
    "DecisionConfig",
    "Problem",
    "ProcessSettings",
    "canonical",
    "cautions",
    "check",
    "check_source",
    "config_hash",
    "filter_hashes",
    "load",
    "load_settings",
    "parse",
    "parse_canonical",
    "resolve_budget",
    "source_hashes",
    "written",
]
