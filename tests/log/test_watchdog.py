"""A call that never returns ends its process; others do not."""

import subprocess
import sys

import pytest

from pipeline.log.errors import Fatal

SLEEPER = """
import time
from pipeline.log.watchdog import Watchdog
dog = Watchdog("test")
with dog.over("a quick call", 60):
    pass
with dog.over("a call", {limit_s}):
    time.sleep({takes_s})
dog.close()
"""


@pytest.mark.parametrize(("limit_s", "takes_s", "exit_code"), [(0.1, 60, Fatal.exit_code), (60, 1.5, 0)])
def test_a_process_ends_when_a_call_takes_longer_than_it_may(limit_s: float, takes_s: float, exit_code: int):
    script = SLEEPER.format(limit_s=limit_s, takes_s=takes_s)
    done = subprocess.run([sys.executable, "-c", script], timeout=50, capture_output=True, text=True)
    assert done.returncode == exit_code
    assert ("a call did not return" in done.stdout) == (exit_code != 0)
