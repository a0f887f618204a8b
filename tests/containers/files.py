"""The files that say how Tamis runs in containers, read once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PYTHON_IMAGE = re.findall(r"^ARG PYTHON_IMAGE=(\S+)", DOCKERFILE, re.MULTILINE)[0]
PROMETHEUS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/dashboards/tamis.json").read_text())
QUERIES: dict[str, str] = {
    target["expr"]: target["legendFormat"] for panel in DASHBOARD["panels"] for target in panel["targets"]
}
"""Each query of the dashboard, and the legend of what it finds."""
TORCH = ("trainer", "generator")
"""Consumers whose image has torch."""


def pins(lock: Path) -> dict[str, str]:
    """What a lock file holds: `name==version ; marker` and the hashes of each."""
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=[a-z0-9])", lock.read_text()):
        head, _, rest = block.partition(" \\\n")
        if "==" in head:
            found[head] = " ".join(sorted(re.findall(r"sha256:[0-9a-f]{64}", rest)))
    return found


def version() -> str:
    """The project's version."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    return found[1]
