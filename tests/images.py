"""Images for the tests where the pinned ones can't be had: others of the same series that are here already."""

from __future__ import annotations

import os
import subprocess

from pipeline.local.docker import REDIS_IMAGE
from tests.containers.files import PYTHON_IMAGE

SERIES = {"REDIS_IMAGE": (REDIS_IMAGE, "redis:7"), "PYTHON_IMAGE": (PYTHON_IMAGE, "python:3.11-slim")}


def use_what_is_here() -> None:
    """Name in the environment, unless it does so, the images of the series whose pinned one isn't here."""
    for variable, (pinned, series) in SERIES.items():
        if variable not in os.environ and not _is_here(pinned) and _is_here(series):
            os.environ[variable] = series


def _is_here(image: str) -> bool:
    try:
        return subprocess.run(["docker", "image", "inspect", image], capture_output=True, timeout=20).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
