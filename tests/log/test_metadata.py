import time

import pytest

from pipeline.log.cause import Cause, FactCauses, cause_of, parse_cause
from pipeline.log.metadata import LIMIT, MAX_DONE, OffsetMetadata, pack_done, parse_metadata, unpack_done


def test_metadata_is_the_same_after_a_round_trip():
    whole = OffsetMetadata(snap=7, policy=0, end=2, done=b"\x01\xff", extra=(("saved", "12"),))
    assert whole.format() == "snap=7;policy=0;end=2;saved=12;done=Af8="
    for metadata in (whole, OffsetMetadata(), OffsetMetadata(policy=3)):
        assert parse_metadata(metadata.format()) == metadata


def test_no_metadata_is_empty_metadata():
    assert parse_metadata(None) == parse_metadata("") == OffsetMetadata()


def test_metadata_of_something_else_is_refused():
    for text in ("nonsense", "snap=x", "done=@@"):
        with pytest.raises(ValueError, match="offset metadata"):
            parse_metadata(text)


def test_the_fullest_bitmap_fits():
    finished = set(range(100, 100 + MAX_DONE))
    text = OffsetMetadata(snap=2**62, policy=2**62, end=99, done=pack_done(100, finished)).format()
    assert len(text) <= LIMIT
    assert unpack_done(100, parse_metadata(text).done) == finished


def test_too_much_metadata_is_refused():
    with pytest.raises(ValueError, match="at most 4095"):
        OffsetMetadata(extra=(("x", "y" * LIMIT),)).format()
    with pytest.raises(ValueError, match="finished offset"):
        pack_done(100, [99])
    with pytest.raises(ValueError, match="finished offset"):
        pack_done(0, [MAX_DONE])


def test_a_bitmap_has_the_lowest_offset_first():
    assert pack_done(10, [10, 12]) == b"\x05"
    assert pack_done(10, []) == b""


def test_a_cause_has_five_parts():
    assert parse_cause("filter/groups/2/17/0") == Cause("filter", "groups", 2, 17, 0)
    for text in (None, "", "ticker/a/7", "a/b/c/d/e", "a/b/1/2/3/4", "a/b/1/-2/3"):
        assert parse_cause(text) is None


def test_a_cause_is_found_among_odd_headers():
    assert cause_of([("x", None), ("cause", None), ("", b""), ("cause", b"a/b/1/2/3")]) == "a/b/1/2/3"
    assert cause_of([("cause", b"\xff")]) == "\ufffd"
    assert cause_of(None) is None


def test_no_fact_has_the_cause_of_another():
    causes = FactCauses("cli", "host/1")
    given = [causes.next() for _ in range(3)]
    assert len(set(given)) == 3 and all(cause.startswith("cli/host-1/") for cause in given)
    time.sleep(0.001)
    assert FactCauses("cli", "host/1").next() not in given
