"""Transactions, facts and reading on a real broker."""

import random
import signal
import threading
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline.domain import events as e
from pipeline.domain.topology import Output, StageName, Topic
from pipeline.domain.vocabulary import DropReason
from pipeline.log.client import Connection, give_up, reader_settings
from pipeline.log.codec import encode
from pipeline.log.errors import Aborted, Fatal, Fenced, Unreachable
from pipeline.log.facts import FactWriter
from pipeline.log.hooks import Hooks
from pipeline.log.loop import Loop
from pipeline.log.reader import read_topic
from pipeline.log.ticker import Ticker
from pipeline.log.topics import group_name, topic_name
from pipeline.log.transaction import Message, Sink

from .conftest import eventually
from .test_loop import groups, responses
from .toy import Counter

pytestmark = pytest.mark.contract
BIG = random.Random(1).randbytes(2 << 20).hex()  # compressed, it is larger than the topic takes


def message(toy, text: str, topic: Topic = Topic.DROPS) -> Message:
    event = e.PayloadsDropped(None, (text,), DropReason.SWEPT, 0)
    return Message(topic_name(toy.connection.run, topic), 0, None, encode(event), f"test/a/{text}")


def keys(toy) -> list[str]:
    return [record.event().keys[0] for record in toy.read(Topic.DROPS)]


def membership(toy, stage: StageName = StageName.ASSEMBLER):
    """The metadata of a consumer that is in no group's generation, as a committer without partitions has it."""
    return Consumer({**reader_settings(toy.connection), "group.id": group_name(toy.connection.run, stage)})


def test_an_aborted_transaction_is_never_seen(toy):
    sink = Sink(toy.connection, StageName.REAPER)
    with pytest.raises(RuntimeError), sink.transaction():
        sink.produce([message(toy, "hidden")])
        raise RuntimeError
    with sink.transaction():
        sink.produce([message(toy, "seen")])
    assert keys(toy) == ["seen"]
    sink.close()


def test_offsets_come_with_the_records(toy):
    sink, consumer = Sink(toy.connection, StageName.REAPER), membership(toy)
    place = TopicPartition(topic_name(toy.connection.run, Topic.ROLLOUTS), 0, 5, "snap=1")
    with pytest.raises(RuntimeError), sink.transaction():
        sink.send_offsets([place], consumer.consumer_group_metadata())
        raise RuntimeError
    assert toy.committed() == {0: (0, "")}
    with sink.transaction():
        sink.send_offsets([place], consumer.consumer_group_metadata())
    assert toy.committed() == {0: (5, "snap=1")}
    sink.close()
    give_up(consumer)


def test_a_flushed_record_has_its_offset_inside_the_transaction(toy):
    sink = Sink(toy.connection, StageName.REAPER)
    with sink.transaction():
        assert sink.produce_flushed([message(toy, "a"), message(toy, "b")]) == 0
    with sink.transaction():
        assert sink.produce_flushed([message(toy, "c")]) == 3  # the first transaction's end mark has an offset too
    assert keys(toy) == ["a", "b", "c"]
    sink.close()


def test_a_record_that_the_broker_refuses_aborts_the_transaction(toy):
    sink = Sink(toy.connection, StageName.REAPER)
    big = message(toy, BIG, Topic.DISCARDS)
    with pytest.raises(Aborted), sink.transaction():
        sink.produce([message(toy, "hidden"), big])
    with sink.transaction():
        sink.produce([message(toy, "seen")])
    assert keys(toy) == ["seen"]
    sink.close()


def test_a_second_process_in_a_slot_fences_the_first_without_a_word_of_the_client(toy, capfd):
    first = Sink(toy.connection, StageName.REAPER)
    with first.transaction():
        first.produce([message(toy, "first")])
    second = Sink(toy.connection, StageName.REAPER)
    with pytest.raises((Fenced, Fatal)), first.transaction():
        first.produce([message(toy, "hidden")])
    with second.transaction():
        second.produce([message(toy, "second")])
    assert keys(toy) == ["first", "second"]
    first.close()
    second.close()
    assert "rdkafka" not in capfd.readouterr().err


def test_reading_to_the_end_waits_for_an_open_transaction(toy):
    sink = Sink(toy.connection, StageName.REAPER)
    opened = threading.Event()

    def slow():
        with sink.transaction():
            sink.produce_flushed([message(toy, "slow")])
            opened.set()
            time.sleep(1)

    thread = threading.Thread(target=slow)
    thread.start()
    opened.wait(10)
    assert keys(toy) == ["slow"]
    thread.join()
    sink.close()


def test_reading_goes_on_from_an_offset_and_can_follow(toy):
    writer = FactWriter(toy.connection, "test")
    writer.write([Output(Topic.ROLLOUTS, 0, event) for event in groups(3)])
    assert [r.offset for r in read_topic(toy.connection, Topic.ROLLOUTS, start=1)] == [1, 2]
    assert list(read_topic(toy.connection, Topic.ROLLOUTS, [0], {0: 3})) == []
    assert list(read_topic(toy.connection, Topic.ROLLOUTS, start=99)) == []
    following = read_topic(toy.connection, Topic.ROLLOUTS, start=2, stop_at_end=False)
    assert next(following).offset == 2
    writer.write([Output(Topic.ROLLOUTS, 0, event) for event in groups(1)])
    assert next(following).offset == 3
    following.close()


def test_a_broker_that_does_not_answer_is_named(run_name):
    from pipeline.log.admin import topics_of_broker

    with pytest.raises(Unreachable, match=r"no Kafka broker answers at 127\.0\.0\.1:1 .*tamis up"):
        topics_of_broker(Connection("127.0.0.1:1", run_name, "a"), timeout_s=0.5)


def test_the_ticker_ticks_while_it_is_told_to(toy):
    ticker = Ticker(toy.connection, toy.rules.tick_ms)
    ticker.start()
    ticker.start()
    eventually(lambda: len(toy.read(Topic.LEDGER)) >= 3, 15, "ticks")
    ticker.stop()
    ticks = toy.read(Topic.LEDGER)
    assert all(record.event().run_ms is None and record.cause.startswith("ticker/test/") for record in ticks)
    assert len({record.cause for record in ticks}) == len(ticks)
    time.sleep(0.3)
    assert len(toy.read(Topic.LEDGER)) == len(ticks)
    ticker.stop()


def test_facts_and_effects_go_with_the_stage(toy):
    toy.write(*groups(1), *responses(2, 1))
    fact = Output(Topic.DROPS, 0, e.PayloadsDropped(None, ("k",), DropReason.SWEPT, 0))
    waiting, seen, commits = [[fact]], [], []
    hooks = Hooks(
        facts=lambda: waiting.pop() if waiting else (),
        before_commit=lambda outputs: seen.extend(outputs),
        committed=commits.append,
    )
    loop = Loop(toy.connection, Counter(), toy.rules, hooks)
    assert loop.run(until=lambda: len(seen) >= 3) == 0
    assert fact in seen and keys(toy) == ["k"]
    assert toy.read(Topic.DROPS)[0].cause.startswith("assembler/test/")
    assert sum(c.records for c in commits) == 3 and commits[-1].positions == {0: 3}
    toy.settled()


def test_a_fact_outlives_an_aborted_transaction_and_ten_in_a_row_end_the_process(toy):
    toy.write(*groups(1), *responses(2, 1))
    asked, calls = [], []
    too_big = Output(Topic.DISCARDS, 0, e.PayloadsDropped(None, (BIG,), DropReason.SWEPT, 0))

    def facts():
        asked.append(1)
        return [too_big] if len(asked) == 1 else []

    loop = Loop(toy.connection, Counter(), toy.rules, Hooks(facts=facts, before_commit=calls.append))
    with pytest.raises(Fatal, match="10 transactions in a row were aborted"):
        loop.run(until=lambda: False)
    assert len(calls) == 10 and all(too_big in outputs for outputs in calls)
    assert toy.read() == [] and toy.committed()[0][0] == 0


@pytest.mark.faults
def test_a_process_frozen_inside_its_transaction_holds_others_up_for_seconds_only(toy):
    toy.write(*groups(2), *responses(10, 2))
    frozen = toy.start("frozen", TAMIS_CRASH_AT="assembler:offsets_sent:1:STOP")
    frozen.expect("assigned 0")
    eventually(frozen.is_stopped, why="frozen")
    assert toy.read() == []
    toy.start("other").expect("assigned 0")
    toy.settled()
    frozen.signal(signal.SIGCONT)
    assert frozen.wait() in (4, 5)
    toy.write(*responses(10, 2))
    toy.settled()
