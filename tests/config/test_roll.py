"""What is told of a ROLL agentic configuration (the numbers themselves are in tests/conformance)."""

import pytest

from pipeline.config.errors import ConfigError
from pipeline.config.roll import AgenticBatch

PLAIN = {"env_groups": 8, "group_size": 4, "val_env_groups": 4, "val_group_size": 1, "val_batch_size": 4}


@pytest.mark.parametrize(
    ("changes", "setting"),
    [({"batch_size": 65}, "batch_size"), ({"batch_size": 64, "val_batch_size": 5}, "val_batch_size"),
     ({"batch_size": 64, "max_traj_per_env": 1}, "max_traj_per_env")],
)  # fmt: skip
def test_what_roll_would_not_start_with_is_refused_by_name(changes, setting):
    with pytest.raises(ConfigError) as refused:
        AgenticBatch(**PLAIN | changes)
    (problem,) = refused.value.problems
    assert problem.path == (setting,) and "expected" in problem.message


def test_groups_older_than_the_async_ratio_are_given_up():
    batch = AgenticBatch(**PLAIN, batch_size=64, async_ratio=1)
    assert [batch.open_after(step) for step in range(4)] == [4, 6, 4, 4]
