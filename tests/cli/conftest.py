"""The command line as a person uses it: words in; text and an exit code out. Nothing may end with a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.cli.commands import run
from pipeline.config import load_settings
from pipeline.local import Services
from pipeline.log.client import Connection
from pipeline.runs import connection_of
from tests.e2e.harness import BASE

ROOT = Path(__file__).parents[2]
Tamis = Callable[..., "Answer"]


@dataclass(frozen=True)
class Answer:
    """What a command answered; `err` on one line, for sentences."""

    code: int
    out: str
    err: str


def completed(words: str, home: Path, **environment: str) -> list[str]:
    """What a shell offers behind these words."""
    place = str(len(words.split()) - 1 + words.endswith(" "))
    asked = {"_TAMIS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place, "PYTHONPATH": str(ROOT)}
    command = [Path(sys.executable).with_name("tamis")]
    ended = subprocess.run(command, env=asked | environment, cwd=home, capture_output=True, text=True, timeout=60)
    return ended.stdout.split()


class Consumer:
    """`tamis consume` in a process of its own."""

    def __init__(self, words: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self.log = folder / f"{words[0]}-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.cli", "consume", *words],
                env=os.environ | environment,
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def end(self, number: int = signal.SIGINT) -> int:
        """Its exit code, once it has got this signal."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(90)

    def said(self) -> str:
        return self.log.read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with no addresses in the environment and no width for texts to be broken at."""
    for name in [name for name in os.environ if name.startswith("TAMIS_") and not name.startswith("TAMIS_TEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def offline(home: Path, capsys: pytest.CaptureFixture[str]) -> Tamis:
    """`offline("config", "check", path)`: the command line where nothing runs."""

    def call(*words: object) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([str(word) for word in words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, said.out, said.err)

    return call


@pytest.fixture
def tamis(offline: Tamis, services: Services, monkeypatch: pytest.MonkeyPatch) -> Tamis:
    """The same with the tests' Kafka and Redis in the environment."""
    monkeypatch.setenv("TAMIS_BOOTSTRAP", services.bootstrap)
    monkeypatch.setenv("TAMIS_REDIS_URL", services.redis_url)
    return offline


@pytest.fixture
def write(home: Path) -> Callable[..., Path]:
    """Writes a configuration: `write(group_size=1)` for BASE with a change, `write("text")` for these very lines."""

    def make(text: str | None = None, name: str = "run.yaml", **changes: Any) -> Path:
        path = home / name
        path.write_text(text if text is not None else yaml.safe_dump({**BASE, "run": "first", **changes}))
        return path

    return make


@pytest.fixture
def created(tamis: Tamis, write: Callable[..., Path], run_name: str, services: Services) -> Connection:
    """A new run, made by `tamis init`."""
    answer = tamis("init", write(run=run_name))
    assert answer.code == 0, answer.err
    return connection_of(load_settings(bootstrap=services.bootstrap, run=run_name, slot="test"))


@pytest.fixture
def consume(home: Path, services: Services) -> Iterator[Callable[..., Consumer]]:
    """Starts `tamis consume …`, and ends it with the test: `consume("assembler", "--run", name)`."""
    made: list[Consumer] = []
    addresses = {"TAMIS_BOOTSTRAP": services.bootstrap, "TAMIS_REDIS_URL": services.redis_url}

    def start(*words: str, **environment: str) -> Consumer:
        made.append(Consumer(words, {**addresses, "PYTHONPATH": str(ROOT), **environment}, home))
        return made[-1]

    yield start
    for consumer in made:
        consumer.close()


def eventually(check: Callable[[], Any], what: str, deadline_s: float = 60.0) -> Any:
    """What `check` gives once it is true."""
    give_up = time.monotonic() + deadline_s
    while not (found := check()):
        assert time.monotonic() < give_up, f"not within {deadline_s:g} s: {what}"
        time.sleep(0.1)
    return found
