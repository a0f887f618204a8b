"""Symbolic mathematics that hangs, judged by the scorer with real processes."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DiscardReason, Grading
from pipeline.local import Services
from pipeline.prompts import task
from tests.facts.rig import FINISHED, Rig, a_task
from tests.facts.test_scorer import generated

pytestmark = pytest.mark.contract

TOWER = r"\boxed{\frac{7^{\left(7^{\left(7^{\left(7^7\right)}\right)} - 3\right)} - 7}{6}}"
TEXTS = [r"\boxed{7}", r"\boxed{8}", r"\boxed{7}", TOWER]
GROUPS = 8
TIMEOUT_S = 2


@pytest.mark.slow
def test_towers_of_exponents_time_out_and_hold_up_nobody_for_good(services: Services, run_name: str, tmp_path: Path):
    """8 groups of which one response each never ends: 8 processes are killed and replaced, all else is judged."""
    math = {"factory": "pipeline.verifiers.math:MathVerify", "options": {"timeout_s": TIMEOUT_S}}
    rig = Rig(services, run_name, tmp_path, verifiers={"math": math}, group_size=4)
    graded = task.grading_bytes(task.decode(a_task("7", ["math"])))
    first = [generated(rig, slot, text, n, grading=graded) for n in range(GROUPS) for slot, text in enumerate(TEXTS)]
    again = [generated(rig, 3, r"\boxed{8}", n, round=2, grading=graded) for n in range(GROUPS)]
    rig.write(Topic.RESPONSES, [*first, *again])
    with rig.scorer() as served:
        found = rig.until(Topic.ROLLOUTS, 5 * GROUPS)
        pids = [worker.pid for worker in served.work.judges["math"].verifier.pool.workers]
        assert len(pids) == 4 and all(psutil.pid_exists(pid) for pid in pids)
        total = served.work.judges["math"].health.total
        assert (total.responses, total.failures, total.timeouts) == (5 * GROUPS, GROUPS, GROUPS)
    template = psutil.Process().children()
    assert not any(psutil.pid_exists(pid) for pid in pids) and not any(
        "math_child" in str(p.cmdline()) for p in template
    )
    assert len(found) == 5 * GROUPS and len(set(rig.causes(Topic.ROLLOUTS))) == 5 * GROUPS
    for s in found:
        assert isinstance(s, e.ResponseScored)
        if (s.slot, s.round) == (3, 1):
            assert (s.grading, s.reward, s.discard) == (Grading.UNGRADED, None, DiscardReason.FAILED)
            assert s.detail == f"verifier 'math': not decided within {TIMEOUT_S} s; its process was killed"
        else:
            assert (s.grading, s.reward) == (Grading.GRADED, 1.0 if s.slot in (0, 2) else 0.0)
    rig.write(Topic.RESPONSES, [FINISHED])
