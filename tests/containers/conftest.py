"""What the tests of whole runs in containers have in common."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.containers.project import STEPS, Project


@pytest.fixture
def project() -> Iterator[Project]:
    """A short demo run in containers of its own; they and their data are gone afterwards."""
    made = Project(f"tamis-test-{secrets.token_hex(3)}", f"--set steps={STEPS} --set evaluation.every={STEPS // 2}")
    yield made
    made.say("removing the containers and their volumes")
    made.down()
