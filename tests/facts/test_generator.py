"""The generator on a real broker and a real Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.domain.topology import StageName, Topic
from pipeline.local import Services
from tests.facts.rig import FINISHED, Engine, Rig, issued

pytestmark = pytest.mark.contract


def test_every_slot_is_answered_once_with_its_place_as_cause(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0), issued(1, redundancy=1), FINISHED])
    engine = Engine()
    with rig.generator(engine, until_finished=True) as served:
        served.wait()
    *responses, last = rig.read(Topic.RESPONSES)
    assert last == FINISHED
    assert sorted((r.group_id, r.slot, r.round) for r in responses) == [
        (f"{n}@0", slot, 1) for n in (0, 1) for slot in range(4 + n)
    ]
    assert sorted(rig.causes(Topic.RESPONSES)) == sorted(
        [f"generator/prompts/0/1/{i}" for i in range(4)]
        + [f"generator/prompts/0/2/{i}" for i in range(5)]
        + ["generator/prompts/0/3/0"]
    )
    assert all(r.failure is None and r.oldest_version == 0 and r.response_tokens == 2 for r in responses)
    assert len({request.seed for _, request in engine.asked}) == 9
    assert rig.store.count_keys() == 9
    offset, metadata = rig.committed(StageName.GENERATOR)
    assert (offset, metadata.policy, metadata.end, metadata.done) == (4, 0, 1, b"")
