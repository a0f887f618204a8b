import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.prompts.order import Order

GOLDEN = [4, 5, 7, 1, 2, 3, 6, 0]


def epoch(order, size, number):
    return [order.at(n, number) for n in range(size)]


@given(st.integers(0, 2**63), st.text(max_size=5), st.integers(1, 200), st.integers(0, 50))
def test_a_pass_has_every_prompt_once(seed, name, size, number):
    assert sorted(epoch(Order(seed, name, size), size, number)) == list(range(size))


def test_seed_domain_and_epoch_each_give_another_order():
    orders = [
        epoch(Order(seed, name, 50), 50, number)
        for seed, name, number in [(0, "a", 0), (1, "a", 0), (0, "b", 0), (0, "a", 1)]
    ]
    assert len({tuple(order) for order in orders}) == 4


def test_epochs_by_turns_give_the_same_as_epochs_in_order():
    one, other = Order(3, "a", 20), Order(3, "a", 20)
    ahead = [epoch(one, 20, number) for number in range(6)]
    assert [epoch(other, 20, number) for number in (5, 0, 5, 1, 4, 0)] == [ahead[n] for n in (5, 0, 5, 1, 4, 0)]


def test_no_shuffle_is_the_files_order():
    assert epoch(Order(0, "a", 5, shuffle=False), 5, 3) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("ordinal", [-1, 5])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_place_outside_the_pass_is_refused(ordinal, shuffle):
    with pytest.raises(IndexError, match=r"not in 0\.\.4"):
        Order(0, "a", 5, shuffle).at(ordinal, 0)


def test_the_order_never_changes_and_does_not_depend_on_pythons_hash_seed():
    program = (
        "from pipeline.prompts.order import Order; o = Order(17, 'math', 8); print([o.at(n, 2) for n in range(8)])"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("0", "1")
    ]
    assert printed == [str(GOLDEN)] * 2
