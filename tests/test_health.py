"""What a health check says of a process, by the signs of life that the process writes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipeline.health import BEAT_WITHIN_S, COMMIT_WITHIN_S, Heartbeat, Standing, problems
from pipeline.process import unusable

CHECK = Path(__file__).parents[1] / "pipeline" / "health.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "alive"


def check(file: Path, *words: str) -> tuple[int, str]:
    """What the command answers, run as a container runs it."""
    command = [sys.executable, "-S", str(CHECK), *words]
    done = subprocess.run(command, env={"TAMIS_HEARTBEAT": str(file)}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.strip()


def test_a_process_that_works_is_well(file: Path) -> None:
    Heartbeat(str(file))(Standing("assembler", 2, True, time.monotonic()))
    assert check(file) == (0, "well")


def test_a_file_that_cannot_be_written_is_named_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nowhere" / "alive"
    monkeypatch.setenv("TAMIS_HEARTBEAT", str(file))
    with pytest.raises(OSError, match="No such file") as caught:
        Heartbeat()(Standing("assembler", 2, True, time.monotonic()))
    assert unusable(caught.value).startswith(f"{file}.new: No such file or directory; expected a place")
    assert "set TAMIS_HEARTBEAT to a file in one" in unusable(caught.value)
    assert "set TAMIS_DATA_DIR to one" in unusable(OSError(13, "Permission denied", str(tmp_path / "data")))


def test_one_that_stands_by_is_well(file: Path) -> None:
    Heartbeat(str(file))(Standing("batcher", 0, True, None))
    assert check(file) == (0, "well")


def test_one_that_has_not_begun_is_neither_alive_nor_well(file: Path) -> None:
    for words in ((), ("--alive",)):
        code, said = check(file, *words)
        assert code == 1
        assert "still starting" in said


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (Standing("filter", None, True), "filter: its consumer group has given it nothing yet"),
        (Standing("filter", 2, False), "filter: the states of 2 partitions are being rebuilt"),
        (Standing("filter", 2, True, 0.0), f"nothing has been committed for {COMMIT_WITHIN_S + 1:.0f} s"),
    ],
)
def test_one_that_can_not_work_is_alive_and_says_what_it_lacks(
    file: Path, monkeypatch: pytest.MonkeyPatch, standing: Standing, said: str
) -> None:
    now = COMMIT_WITHIN_S + 1
    monkeypatch.setattr("pipeline.health.time.monotonic", lambda: now)
    Heartbeat(str(file))(standing)
    assert problems(str(file), now, alive_only=True) == []
    (problem,) = problems(str(file), now)
    assert said in problem


def test_a_loop_that_turns_no_more_is_named_while_another_still_does(file: Path) -> None:
    heart = Heartbeat(str(file))
    thread = threading.Thread(target=heart, args=(Standing("reaper", 1),))
    thread.start()
    thread.join()
    heart._next = 0.0
    heart(Standing("discard-reaper", 2))
    now = time.monotonic()
    assert problems(str(file), now) == []
    late = now + BEAT_WITHIN_S + 1
    heart._next = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.health.time.monotonic", lambda: late)
        heart()  # this thread's loop stands as before
    (problem,) = problems(str(file), late, alive_only=True)
    assert problem.startswith("reaper: no sign of life for 31 s")


def test_a_file_of_something_else_is_no_sign_of_life(file: Path) -> None:
    file.write_text("12.5\n")
    code, said = check(file)
    assert code == 1
    assert "can't be read" in said


def test_the_check_needs_to_know_the_file() -> None:
    assert problems(None, 0.0) == [
        "TAMIS_HEARTBEAT is not set; name in it the file that the process writes its signs of life to"
    ]


def test_without_the_variable_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAMIS_HEARTBEAT", raising=False)
    monkeypatch.chdir(tmp_path)
    Heartbeat()(Standing("filter", 1))
    assert list(tmp_path.iterdir()) == []
