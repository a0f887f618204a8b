import ctypes
import math
import struct
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.store.errors import PayloadDamaged
from pipeline.store.format import HEADER_BYTES, VERSION, Array, Payload, decode, decode_head, encode

WIDTHS = {"int32": "i", "int64": "q"}
NAN_WITH_PAYLOAD = struct.pack("<I", 0x7FC12345)


def ids(numbers: list[int], dtype: str = "int64") -> Array:
    return Array(dtype, array(WIDTHS[dtype], numbers).tobytes())


def payload(text: str = "an answer", tokens: int = 3, **changes: object) -> Payload:
    fields: dict[str, object] = {
        "metadata": b"\x00task\xff",
        "text": text,
        "prompt_ids": ids([1, 2]),
        "response_ids": ids(list(range(tokens))),
        "logprobs": Array("float32", array("f", [-0.5] * tokens).tobytes()),
        "loss_mask": Array("uint8", b"\x01" * tokens),
        "version_spans": ((0, tokens, 7),),
    }
    return Payload(**(fields | changes))  # type: ignore[arg-type]


@st.composite
def payloads(draw: st.DrawFn) -> Payload:
    tokens = draw(st.integers(0, 40))
    prompt, response = draw(st.sampled_from(["int32", "int64"])), draw(st.sampled_from(["int32", "int64"]))
    size = {"int32": 4, "int64": 8}
    raw = st.integers(0, 20).flatmap(lambda n: st.binary(min_size=n * size[prompt], max_size=n * size[prompt]))
    return Payload(
        draw(st.binary(max_size=60)),
        draw(st.text(max_size=60)),
        Array(prompt, draw(raw)),
        Array(response, draw(st.binary(min_size=tokens * size[response], max_size=tokens * size[response]))),
        draw(st.none() | st.binary(min_size=tokens * 4, max_size=tokens * 4).map(lambda data: Array("float32", data))),
        Array("uint8", draw(st.binary(min_size=tokens, max_size=tokens))),
        tuple(draw(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3), max_size=4))),
    )


@settings(deadline=None)
@given(payloads())
def test_what_is_decoded_is_what_was_encoded(given_payload: Payload) -> None:
    value, head_bytes = encode(given_payload)
    assert decode(value) == given_payload
    head = decode_head(value[:head_bytes])
    assert (head.metadata, head.text, head.text_escaped) == (given_payload.metadata, given_payload.text, False)


@settings(deadline=None)
@given(payloads())
def test_every_array_starts_at_a_multiple_of_8_and_is_a_view(given_payload: Payload) -> None:
    value = bytearray(encode(given_payload)[0])
    start = ctypes.addressof(ctypes.c_char.from_buffer(value))
    decoded = decode(value)
    for part in (decoded.prompt_ids, decoded.response_ids, decoded.logprobs, decoded.loss_mask):
        if part is not None and len(part.data):
            assert isinstance(part.data, memoryview)
            assert part.data.obj is value
            assert (ctypes.addressof(ctypes.c_char.from_buffer(part.data)) - start) % 8 == 0


@settings(deadline=None)
@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_text_can_be_stored(text: str) -> None:
    value, head_bytes = encode(payload(text))
    lone = any(0xD800 <= ord(character) <= 0xDFFF for character in text)
    expected = text.encode("utf-8", "backslashreplace").decode()
    assert decode_head(value[:head_bytes]) == (b"\x00task\xff", expected, lone)
    assert encode(decode(value)) == (value, head_bytes)


def test_a_lone_surrogate_is_escaped_and_marked_and_the_tokens_stay() -> None:
    decoded = decode(encode(payload("a\udc80\x00b"))[0])
    assert (decoded.text, decoded.text_escaped) == ("a\\udc80\x00b", True)
    assert decoded.response_ids == ids([0, 1, 2])


def test_nan_and_infinite_logprobs_are_kept_bit_for_bit() -> None:
    raw = NAN_WITH_PAYLOAD + struct.pack("<ff", -math.inf, -0.0)
    logprobs = decode(encode(payload(logprobs=Array("float32", raw)))[0]).logprobs
    assert logprobs is not None
    assert bytes(logprobs.data) == raw


def test_missing_logprobs_stay_missing_and_differ_from_none_needed() -> None:
    assert decode(encode(payload(logprobs=None))[0]).logprobs is None
    empty = decode(encode(payload(tokens=0))[0]).logprobs
    assert empty is not None
    assert len(empty.data) == 0


def test_buffers_of_wider_items_are_stored_by_their_bytes() -> None:
    wide = payload(
        prompt_ids=Array("int64", memoryview(array("q", [1, 2]))),
        logprobs=Array("float32", memoryview(array("f", [-0.5] * 3))),
        loss_mask=Array("uint8", bytearray(b"\x01" * 3)),
    )
    assert encode(wide) == encode(payload())
    nothing = Array("int64", memoryview(array("q")))
    assert encode(payload(prompt_ids=nothing)) == encode(payload(prompt_ids=ids([])))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss_mask": Array("uint8", b"\x01\x01")}, "loss_mask has 2 items, response_ids 3"),
        ({"logprobs": Array("float32", bytes(8))}, "logprobs has 2 items, response_ids 3"),
        ({"logprobs": Array("float32", b"")}, "logprobs has 0 items, response_ids 3"),
        ({"logprobs": Array("float64", bytes(24))}, "float64"),
        ({"prompt_ids": Array("int64", bytes(12))}, "prompt_ids has 12 bytes, expected a multiple of 8"),
        ({"prompt_ids": Array("uint16", bytes(4))}, "uint16"),
        ({"response_ids": Array("int64", bytes(20))}, "loss_mask has 3 items, response_ids 2.5"),
    ],
)
def test_a_payload_that_disagrees_with_itself_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(payload(**changes))  # type: ignore[arg-type]


def test_a_value_cut_anywhere_is_damaged() -> None:
    value, head_bytes = encode(payload())
    for length in range(len(value)):
        with pytest.raises(PayloadDamaged, match=f"length is {length}, expected"):
            decode(value[:length])
        if length < head_bytes:
            with pytest.raises(PayloadDamaged):
                decode_head(value[:length])
    with pytest.raises(PayloadDamaged, match="length"):
        decode(value + b"\x00")


def test_one_changed_bit_anywhere_is_damage() -> None:
    value, head_bytes = encode(payload())
    for index in range(8 * len(value)):
        damaged = bytearray(value)
        damaged[index // 8] ^= 1 << index % 8
        with pytest.raises(PayloadDamaged):
            decode(damaged)
        if index // 8 < head_bytes:
            with pytest.raises(PayloadDamaged):
                decode_head(damaged[:head_bytes])
        else:
            assert decode_head(damaged[:head_bytes]).text == "an answer"


@pytest.mark.parametrize(
    ("offset", "part"),
    [(0, "magic"), (4, "checksum of the head"), (8, "format version"), (9, "checksum of the head"), (-1, "arrays")],
)
def test_damage_is_named(offset: int, part: str) -> None:
    value = bytearray(encode(payload())[0])
    value[offset] ^= 0x40
    with pytest.raises(PayloadDamaged, match=part) as caught:
        decode(value)
    assert part in caught.value.what


def test_foreign_bytes_are_damaged() -> None:
    for foreign in (b"", b"\xff\x00\xc3\x28", b"plain ASCII text" * 10, bytes(HEADER_BYTES)):
        with pytest.raises(PayloadDamaged):
            decode(foreign)


def test_the_bytes_of_version_1_do_not_change() -> None:
    value, head_bytes = encode(payload("hé", prompt_ids=ids([5], "int32")))
    assert VERSION == 1
    assert head_bytes == 57
    assert value.hex() == GOLDEN


GOLDEN = (
    "544d4953b2546a590100000102030000364b7b5a060000000300000004000000180000000c0000000300000018000000"
    "007461736bff68c3a9000000000000000500000000000000000000000000000001000000000000000200000000000000"
    "000000bf000000bf000000bf000000000101010000000000000000000000000003000000000000000700000000000000"
)
