"""For fault tests: `TAMIS_CRASH_AT=<stage>:<step>:<nth>` kills the process (SIGKILL) when that stage reaches that
step of its commit for the nth time; `…:<nth>:STOP` freezes it (SIGSTOP). Steps, in order: taken, decided, begun,
produced, offsets_sent, committed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

STEPS = ("taken", "decided", "begun", "produced", "offsets_sent", "committed")


def crash_point(stage: str) -> Callable[[str], None]:
    """A function to call at each step with its name; it does nothing unless the environment asks for a crash."""
    wanted_stage, _, rest = os.environ.get("TAMIS_CRASH_AT", "").partition(":")
    if wanted_stage != stage:
        return lambda step: None
    wanted_step, nth, name = (rest.split(":") + ["1", "KILL"][rest.count(":") :])[:3]
    if wanted_step not in STEPS:
        raise ValueError(f"TAMIS_CRASH_AT: step {wanted_step!r}; expected one of {', '.join(STEPS)}")
    left = int(nth)

    def reached(step: str) -> None:
        nonlocal left
        if step == wanted_step:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.Signals[f"SIG{name}"])

    return reached
