import pytest

from pipeline.store.keys import checked_run, fresh_key, parse_key


def test_a_key_says_its_run_group_slot_and_round() -> None:
    parts = parse_key(fresh_key("grpo-1.b", "12@3", 4, 1))
    assert parts == ("grpo-1.b", 12, 3, 4, 1)
    assert parts is not None
    assert parts.group_id == "12@3"


def test_no_two_keys_are_equal() -> None:
    assert len({fresh_key("r", "1@0", 0, 0) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "key",
    [
        "",
        "tamis:r",
        "tamis:r:{1@0}:0.0",
        "tamis:r:{1@0}:0.0:",
        "tamis:r:{1@0}:0.0:xyz",
        "tamis:r:{1@0}:0.0:ab\n",
        "tamis:r:{1@0}:00.0:ab",
        "tamis:r:{01@0}:0.0:ab",
        "tamis:r:{1}:0.0:ab",
        "tamis:r:{-1@0}:0.0:ab",
        "tamis:r:{1@0}x:0.0:ab",
        "tamis:r:s:{1@0}:0.0:ab",
        "other:r:{1@0}:0.0:ab",
        "tamis:r:{١@0}:0.0:ab",
    ],
)
def test_a_foreign_key_has_no_parts(key: str) -> None:
    assert parse_key(key) is None


@pytest.mark.parametrize("run", ["", "a:b", "a*", "a{b}", "a b", "[a]", "é"])
def test_a_run_that_a_pattern_would_misread_is_refused(run: str) -> None:
    with pytest.raises(ValueError, match="name it with letters"):
        checked_run(run)
