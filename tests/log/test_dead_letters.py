"""Anyone can write to a topic: what can't be read becomes a dead letter, and its neighbours are handled."""

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DeadLetterReason
from pipeline.log.codec import MARKER, encode

from .conftest import eventually
from .test_loop import groups, responses
from .toy import opened, scored

pytestmark = pytest.mark.contract


def letters(toy) -> list[e.DeadLettered]:
    return [record.event() for record in toy.read(Topic.DEAD_LETTERS)]


def test_each_bad_record_is_one_dead_letter_as_it_was_found(toy):
    good = encode(scored("0@0", 1))
    bad = {
        DeadLetterReason.NULL_VALUE: None,
        DeadLetterReason.EMPTY_VALUE: b"",
        DeadLetterReason.TRUNCATED: b"\xc3",
        DeadLetterReason.NO_MARKER: b"hello",
        DeadLetterReason.TRAILING_BYTES: good + b"JUNK",
        DeadLetterReason.BAD_TEXT: good.replace(b"\x02g", b"\x04\xe2\x28"),
        DeadLetterReason.NEGATIVE_LENGTH: good.replace(b"\x02g", b"\x03"),
    }
    toy.write(*groups(1))
    for value in bad.values():
        toy.write_raw(value, b"\xff\xfe", [("x", None), ("x", b"\xff"), ("", b"")])
        toy.write(scored("0@0", 1))
    toy.write_raw(MARKER + b"12345")
    toy.write_raw(good[:10])
    toy.start().expect("assigned 0")
    eventually(lambda: len(toy.read(Topic.DEAD_LETTERS)) >= 9, why="dead letters")
    found = letters(toy)
    assert [letter.reason for letter in found[:7]] == list(bad)
    assert [letter.value for letter in found[:7]] == list(bad.values())
    assert [letter.offset for letter in found] == [1, 3, 5, 7, 9, 11, 13, 15, 16]
    first = found[0]
    assert (first.stage, first.topic, first.partition, first.key) == ("assembler", "rollouts", 0, b"\xff\xfe")
    assert first.headers == (e.Header("x", None), e.Header("x", b"\xff"), e.Header("", b""))
    assert found[-1].key is None and found[-1].headers == ()
    assert toy.read(Topic.DEAD_LETTERS)[0].cause == "assembler/rollouts/0/1/0"
    eventually(lambda: len(toy.read()) >= 8, why="the good neighbours")
    assert [record.event().round for record in toy.read()] == [1, 2, 3, 4, 5, 5, 6, 7]


def test_a_good_event_with_odd_headers_and_no_key_is_handled(toy):
    toy.write(*groups(1))
    toy.write_raw(encode(scored("0@0", 1)), None, [("x", None), ("x", b"\xff"), ("", b""), ("cause", None)])
    toy.start().expect("assigned 0")
    eventually(lambda: len(toy.read()) == 1, why="its answer")
    assert toy.read(Topic.DEAD_LETTERS) == []


def test_the_group_that_a_broken_record_names_is_told(toy):
    toy.write(*groups(1), *responses(1, 1))
    toy.write_raw(b"\0", b"0@0", [("cause", b"scorer/responses/0/0/0")])
    toy.start().expect("assigned 0")
    eventually(lambda: len(toy.read()) == 2, why="the answer to Undecodable")
    told, letter = toy.read()[1], toy.read(Topic.DEAD_LETTERS)[0]
    assert told.event().slot == -1 and told.cause == "assembler/rollouts/0/2/0"
    assert letter.cause == "assembler/rollouts/0/2/1"


def test_events_that_do_not_belong_there_are_dead_letters(toy):
    toy.write(e.GroupClosed("0@0", 0), opened("0@1"), opened("x@0"), e.GroupCancelled("7@3", 0))
    toy.write(scored("9@4", 1))
    toy.start().expect("assigned 0")
    eventually(lambda: len(toy.read(Topic.DEAD_LETTERS)) >= 4, why="dead letters")
    assert [letter.reason for letter in letters(toy)] == [
        DeadLetterReason.WRONG_TOPIC,
        DeadLetterReason.WRONG_PARTITION,
        DeadLetterReason.WRONG_PARTITION,
        DeadLetterReason.WRONG_PARTITION,
    ]
    eventually(lambda: len(toy.read()) == 1, why="a foreign response has its own answer")


def test_dead_letters_are_not_written_again_after_a_restart(toy):
    toy.write(*groups(1))
    toy.write_raw(b"", b"0@0")
    toy.write(*responses(3, 1))
    first = toy.start()
    eventually(lambda: len(toy.read()) == 4, why="answers")
    first.signal(9)
    first.wait()
    toy.start().expect("assigned 0")
    toy.write(*responses(1, 1))
    eventually(lambda: len(toy.read()) == 5, why="the last answer")
    assert [record.event().round for record in toy.read()] == [0, 1, 2, 3, 4]
    assert len(toy.read(Topic.DEAD_LETTERS)) == 1


def test_a_stage_that_can_read_nothing_stops(toy):
    for _ in range(100):
        toy.write_raw(b"{}")
    process = toy.start()
    process.expect("Stop: assembler on")
    assert process.wait() == 2
