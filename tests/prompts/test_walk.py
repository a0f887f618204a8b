"""The goals of the walk."""

import pytest

from pipeline.prompts.sorting import text
from pipeline.prompts.walk import SIZE, SYMBOLS, WalkPrompts, cells, split_of
from pipeline.sdk import PromptSource, Task


def tasks(split: str = "train", seed: int = 1, size: int = 200) -> list[Task]:
    source = WalkPrompts(seed, {"split": split, "size": size})
    assert isinstance(source, PromptSource)
    return [source.at("walk", ordinal, 0) for ordinal in range(source.size("walk"))]


def test_a_task_names_its_goal_and_no_verifier() -> None:
    for task in tasks():
        assert text(task.token_ids, SYMBOLS) == task.text == f"{task.metadata['column']}{task.metadata['row']}>"
        assert task.verifiers == ()


def test_of_each_column_and_row_one_goal_is_held_out() -> None:
    trained, held_out = ({task.text for task in tasks(split)} for split in ("train", "eval"))
    assert not trained & held_out and len(trained | held_out) == SIZE * SIZE
    assert sorted(text[0] for text in held_out) == sorted(text[1] for text in held_out) == list("01234")
    assert {split_of(cell) for cell in cells()} == {"train", "eval"}


def test_the_same_arguments_give_the_same_tasks_each_with_a_name_of_its_own() -> None:
    assert tasks() == tasks() != tasks(seed=2)
    assert len({task.id for task in tasks()}) == 200


@pytest.mark.parametrize("options", [{"split": "test"}, {"colour": 1}])
def test_options_that_do_not_exist_are_refused(options: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        WalkPrompts(1, options)


def test_another_domain_is_refused() -> None:
    with pytest.raises(KeyError, match="no domain 'run'"):
        WalkPrompts(1, {}).size("run")
