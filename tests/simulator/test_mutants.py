"""A simulator that finds nothing wrong is worth as much as what it would have found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
SEEDS = 60


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline and the simulator, to be changed."""
    root = tmp_path_factory.mktemp("mutants")
    for folder in ("pipeline", "schemas", "tests/simulator"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "test_*"))
    return root


def run(root: Path, config: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "tests.simulator", "--config", config, "--first"]
    command += ["--seed", "0", "--count", str(SEEDS)]
    return subprocess.run(command, cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_simulator_catches(mutant: Mutant, copy: Path) -> None:
    path = copy / mutant.file
    text = path.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.name}: {mutant.file} has the text {text.count(mutant.old)} times"
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        found = run(copy, mutant.config)
    finally:
        path.write_text(text)
    assert found.returncode == 1 and "problems; again:" in found.stdout, (
        f"{mutant.name} was not caught\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    )
