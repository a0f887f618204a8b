import io
import json
import math
import struct

import fastavro
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import events as e
from pipeline.domain.vocabulary import DeadLetterReason, Grading
from pipeline.log.binary import VARINTS, Malformed, Unwritable
from pipeline.log.codec import HEAD, MARKER, Members, Poison, UnknownSchema, decode, encode, to_json, upgrading
from pipeline.log.compile import codec_of, composed
from pipeline.log.schemas import read_schema, without_logical_types

from .golden import KINDS, newest, path_of
from .samples import bare, full
from .toy import scored

EVENTS = list(e.EVENTS.values())
SAMPLES = [sample(cls) for cls in EVENTS for sample in (full, bare)]


def names(event: e.Event) -> str:
    return type(event).__name__


@pytest.mark.parametrize("event", SAMPLES, ids=names)
def test_an_event_is_the_same_after_a_round_trip(event):
    assert decode(encode(event)) == event


@pytest.mark.parametrize("event", SAMPLES, ids=names)
def test_any_avro_library_reads_what_is_written(event):
    read = fastavro.schemaless_reader(io.BytesIO(encode(event)[HEAD:]), read_schema(names(event), 1))
    assert list(read) == list(type(event).__dataclass_fields__)
    assert without_event(to_json(event)) == plain(read)


@pytest.mark.parametrize("event", SAMPLES, ids=names)
def test_what_any_avro_library_writes_is_read(event):
    schema = read_schema(names(event), 1)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, fastavro.schemaless_reader(io.BytesIO(encode(event)[HEAD:]), schema))
    assert encode(event)[:HEAD] + out.getvalue() == encode(event)


def without_event(made):
    return {key: value for key, value in made.items() if key != "event"}


def plain(value):
    """As to_json has it."""
    import base64

    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("event", newest())
def test_golden_bytes_mean_what_they_always_meant(event, kind):
    for version in range(1, newest()[event] + 1):
        golden = path_of(event, version, kind, "bin").read_bytes()
        assert to_json(decode(golden)) == json.loads(path_of(event, version, kind, "json").read_text())
    assert encode(decode(golden)) == golden, "the newest version is also written so"


def damaged(replace: bytes, field: str = "generator") -> bytes:
    """A real event with one text field replaced by these bytes."""
    whole, text = encode(scored("1@0", 3)), b"\x02g"
    assert field == "generator" and whole.count(text) == 1
    return whole.replace(text, replace)


def test_a_value_that_is_no_event_has_its_reason():
    good = encode(scored("1@0", 3))
    reasons = {
        None: DeadLetterReason.NULL_VALUE,
        b"": DeadLetterReason.EMPTY_VALUE,
        b"\xc3": DeadLetterReason.TRUNCATED,
        b"{}": DeadLetterReason.NO_MARKER,
        MARKER + b"12345": DeadLetterReason.TRUNCATED,
        good[:HEAD]: DeadLetterReason.TRUNCATED,
        good[:-1]: DeadLetterReason.TRUNCATED,
        damaged(b"\x04\xe2\x28"): DeadLetterReason.BAD_TEXT,
        damaged(b"\x03"): DeadLetterReason.NEGATIVE_LENGTH,
        damaged(b"\xfe\xff\xff\xff\x0f\x61\x62"): DeadLetterReason.TRUNCATED,
        good + b"JUNK": DeadLetterReason.TRAILING_BYTES,
    }
    for value, reason in reasons.items():
        with pytest.raises(Poison) as caught:
            decode(value)
        assert caught.value.reason is reason, value


def test_every_prefix_of_an_event_is_truncated():
    for event in SAMPLES:
        whole = encode(event)
        for size in range(2, len(whole)):
            with pytest.raises(Poison) as caught:
                decode(whole[:size])
            assert caught.value.reason is DeadLetterReason.TRUNCATED


@given(st.sampled_from(SAMPLES), st.data())
def test_reading_is_total(event, data):
    whole = bytearray(encode(event))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(HEAD, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(whole))
    except Poison as poison:
        assert poison.detail.startswith(names(event))


@given(st.sampled_from(SAMPLES), st.data())
def test_generated_and_composed_readers_say_the_same(event, data):
    whole = bytearray(encode(event)[HEAD:])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole)))
        whole[at : at + data.draw(st.integers(0, 4))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"\x01", b"\x80", b"\xff" * 9 + b"\x01"])
        )
    assert outcome(codec_of(type(event)), bytes(whole)) == outcome(composed(type(event)), bytes(whole))


def outcome(codec, data):
    try:
        value, end = codec.read(data, 0)
        return repr(value), end
    except Malformed as error:
        return error.reason, error.detail, error.field


@pytest.mark.parametrize("event", [*SAMPLES, full(e.Member), bare(e.Member)], ids=names)
def test_generated_and_composed_writers_say_the_same(event):
    kind = type(event)
    assert codec_of(kind).writers[kind](event) == composed(kind).writers[kind](event)


def test_the_field_that_is_broken_is_named():
    with pytest.raises(Poison, match=r"ResponseScored\.generator: text that is not UTF-8"):
        decode(damaged(b"\x04\xe2\x28"))


def test_a_length_of_two_gigabytes_costs_no_memory():
    before = psutil.Process().memory_info().rss
    for claim in (b"\xfe\xff\xff\xff\x0f\x61\x62", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(Poison):
            decode(damaged(claim))
    components = encode(scored("1@0", 3)).replace(b"\x02\x08math", b"\xfe\xff\xff\xff\x0f\x08math")
    with pytest.raises(Poison):
        decode(components)
    assert psutil.Process().memory_info().rss - before < 50 << 20


def test_an_unknown_schema_is_not_poison():
    with pytest.raises(UnknownSchema, match="0102030405060708"):
        decode(MARKER + bytes(range(1, 9)) + b"body")


def test_wrong_values_are_wrong_types():
    with pytest.raises(Malformed) as caught:
        codec_of(Grading).read(VARINTS[3], 0)
    assert caught.value.reason is DeadLetterReason.WRONG_TYPE
    for kind, data in ((bool, b"\x02"), (int, b"\xff" * 10 + b"\x01"), (int | None, b"\x04")):
        with pytest.raises(Malformed) as caught:
            codec_of(kind).read(data, 0)
        assert caught.value.reason is DeadLetterReason.WRONG_TYPE


def replaced(event: e.Event, **changes: object) -> e.Event:
    fields = {name: getattr(event, name) for name in type(event).__dataclass_fields__}
    return type(event)(**{**fields, **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"slot": "3"},
        {"slot": True},
        {"slot": 1.0},
        {"slot": 2**63},
        {"slot": None},
        {"reward": "high"},
        {"reward": True},
        {"grading": "graded"},
        {"drop_flag": 1},
        {"generator": None},
        {"generator": b"g"},
        {"components": {"math": None}},
        {"components": {1: 1.0}},
        {"components": [("math", 1.0)]},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_not_written(change):
    with pytest.raises(Unwritable, match=next(iter(change))):
        encode(replaced(scored("1@0", 3), **change))


def test_half_a_character_is_escaped_wherever_it_stands():
    event = replaced(scored("1@0", 3), generator="a\ud83d", text="\udc00z", components={"\ud83d": 1.0})
    found = decode(encode(event))
    assert (found.generator, found.text, found.components) == ("a\\ud83d", "\\udc00z", {"\\ud83d": 1.0})
    assert encode(found) == encode(event)


def test_a_text_may_hold_nul_and_a_reward_nan():
    event = decode(encode(replaced(scored("1@0", 3), text="a\0b", reward=math.nan)))
    assert event.text == "a\0b" and math.isnan(event.reward)
    assert to_json(event)["reward"] == "nan"


def test_a_time_is_a_number():
    assert decode(encode(e.Tick(1_764_470_000_123, None))).at == 1_764_470_000_123


def test_members_are_the_same_after_a_round_trip():
    members = (full(e.Member), bare(e.Member))
    codec = Members()
    assert codec.decode(codec.encode(members)) == members
    assert codec.decode(codec.encode(())) == ()
    read = fastavro.schemaless_reader(
        io.BytesIO(codec.encode(members)), {"type": "array", "items": read_schema("Member", 1)}
    )
    assert [m["generator"] for m in read] == [m.generator for m in members]
    with pytest.raises(Poison, match="bytes too many"):
        codec.decode(codec.encode(members) + b"x")


def test_an_older_version_is_read_as_the_newest():
    new = {"type": "record", "name": "Tick", "namespace": "tamis", "fields": []}
    new["fields"] = [{"name": "at", "type": "long"}, {"name": "run_ms", "type": ["null", "long"], "default": None}]
    old = {**new, "fields": new["fields"][:1]}
    read = upgrading(fastavro.parse_schema(old), fastavro.parse_schema(new), codec_of(e.Tick).read)
    assert read(b"head" + VARINTS[7], 4) == (e.Tick(7, None), 5)
    with pytest.raises(Malformed):
        read(b"head\xff", 4)


def test_logical_types_are_left_out():
    assert without_logical_types([{"type": "long", "logicalType": "timestamp-millis"}]) == [{"type": "long"}]


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_keep_their_value(number):
    assert codec_of(int).read(VARINTS[number] + b"x", 0) == (number, len(VARINTS[number]))


@given(st.floats())
def test_doubles_keep_every_bit(number):
    read, _ = codec_of(float).read(struct.pack("<d", number), 0)
    assert struct.pack("<d", read) == struct.pack("<d", number)
