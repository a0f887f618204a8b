"""Final numbers of texts, and the verifier that compares them. Cases of sign, notation and trailing text."""

from __future__ import annotations

import asyncio
import time

import pytest

from pipeline.sdk import Score, ScoreRequest
from pipeline.verifiers.answers import final_number, same_number
from pipeline.verifiers.gsm8k import Gsm8k


def judged(gold: str, text: str) -> Score:
    (score,) = asyncio.run(Gsm8k(0, {}).score([ScoreRequest("r", text, gold, {})]))
    return score


@pytest.mark.parametrize(
    ("gold", "text", "right"),
    [
        ("-3", "#### -3", True),
        ("-3", "#### 3", False),
        ("3", "#### -3", False),
        ("-1234.5", r"\boxed{-1,234.50}", True),
        ("7", "The answer is +7", True),
        ("-3", "The answer is \u22123", True),
        ("5", "10 - 5 = 5", True),
        ("42", "2+40=42\n#### 42\n" + "and so on " * 40, True),
        ("-3", r"\boxed{-3.0}", True),
        ("7", "so 12-5 makes 7.", True),
        ("5", "between 2-5", True),
        ("3", "- 3 apples", True),
        ("-3", "2 - 5 = - 3", True),
        ("-5", "it is -$5", True),
        ("-5", "it is $-5$", True),
        ("18", "$18.00 per day. ", True),
        ("1234", "1{,}234", True),
        ("1000", "1e3", True),
        ("1/2", r"\boxed{\frac{1}{2}}", True),
        ("0.5", r"\boxed{1/2}", True),
        ("42", r"\boxed{x = 42\text{ cm}}", True),
        ("42", "**Answer: 42**, since 6 times 7 is that", True),
        ("42", r"\boxed{41} no, \boxed{42} and not 43", True),
        ("42", "I don't know.", False),
        ("42", r"\boxed{\text{none}} of the 42", False),
    ],
)
def test_the_sign_is_part_of_a_number_and_its_notation_is_not(gold: str, text: str, right: bool):
    score = judged(gold, text)
    assert (score.value, score.outcome) == (float(right), "ok")


def test_the_answer_that_was_read_is_told_in_full():
    assert [judged("42", text).answer for text in (r"\boxed{42}", "I don't know.", r"\boxed{137}")] == [
        "42", None, "137"
    ]  # fmt: skip


def test_the_reference_of_a_solution_keeps_its_sign():
    assert final_number("So 2 - 5 = -3\n#### -3") == "-3"
    assert judged("So 2 - 5 = -3\n#### -3", "#### -3").value == 1.0


def test_a_target_without_a_number_is_a_mistake_of_the_data():
    score = judged("seven", "7")
    assert (score.value, score.outcome) == (None, "misconfigured") and "mend the row" in (score.detail or "")


@pytest.mark.parametrize("text", ["9" * 500, "1/0", r"\frac{1}{0}", "x", "", "1e9999", "--3"])
def test_what_is_no_number_equals_nothing(text: str):
    assert not same_number(text, text)


@pytest.mark.parametrize("piece", ["\\boxed{", "{", "}", "-1 ", "1", "answer is ", "####", "\\,", "1,111"])
def test_a_long_text_takes_no_long_time(piece: str):
    started = time.process_time()
    final_number(piece * (400_000 // len(piece)))
    assert time.process_time() - started < 5
