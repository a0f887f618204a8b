"""The demo's prompts."""

import pytest

from pipeline.prompts.sorting import SortingPrompts, answer, text
from pipeline.sdk import PromptSource, Task


def source(seed: int = 1, **options: object) -> SortingPrompts:
    return SortingPrompts(seed, {"size": 200, **options})


def tasks(of: SortingPrompts, epoch: int = 0) -> list[Task]:
    return [of.at("sorting", ordinal, epoch) for ordinal in range(of.size("sorting"))]


def test_a_task_asks_for_the_digits_in_order() -> None:
    for task in tasks(source()):
        digits = task.text.removesuffix(">")
        assert len(digits) == 6 and text(task.token_ids) == task.text
        (binding,) = task.verifiers
        assert (binding.name, binding.target, task.id) == ("exact", answer(digits), f"sort-{digits}")


def test_the_same_arguments_give_the_same_tasks() -> None:
    assert isinstance(source(), PromptSource)
    assert tasks(source()) == tasks(source()) and source().content_hash == source().content_hash


def test_the_content_hash_is_pinned() -> None:
    assert source().content_hash == "92918a56e607ff36f4a171a55756188658f47cb24fead0dcc38f10bd2da38297"


@pytest.mark.parametrize(
    "change", [{"seed": 2}, {"size": 199}, {"digits": 5}, {"split": "eval"}, {"verifier": "other"}]
)
def test_whatever_changes_a_task_changes_the_hash(change: dict[str, object]) -> None:
    assert source(**change).content_hash != source().content_hash


def test_an_epoch_is_a_new_order_of_the_same_prompts() -> None:
    first, second = tasks(source()), tasks(source(), epoch=1)
    assert first != second and {task.id for task in first} == {task.id for task in second}
    assert len({task.id for task in first}) == 200


def test_no_held_out_answer_is_ever_trained_on() -> None:
    trained = {task.verifiers[0].target for task in tasks(source(size=4000))}
    held_out = {task.verifiers[0].target for seed in (1, 2) for task in tasks(source(seed, split="eval", size=500))}
    assert len(held_out) > 200 and not trained & held_out


def test_places_and_domains_that_do_not_exist_are_refused() -> None:
    prompts = source()
    for ordinal in (-1, 200):
        with pytest.raises(IndexError):
            prompts.at("sorting", ordinal, 0)
    with pytest.raises(KeyError, match="no domain 'maths'"):
        prompts.at("maths", 0, 0)


@pytest.mark.parametrize("options", [{"split": "test"}, {"size": 0}, {"digits": 2}])
def test_what_cannot_be_made_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        source(**options)
