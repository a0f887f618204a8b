"""Which records are finished, in any order of finishing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.log.metadata import LIMIT, MAX_DONE, OffsetMetadata, parse_metadata
from pipeline.log.tracker import Tracker


@given(st.data())
def test_a_restart_at_any_moment_serves_exactly_what_is_not_finished(data: st.DataObject):
    offsets = sorted(data.draw(st.sets(st.integers(0, 60), min_size=1)))
    order = data.draw(st.permutations(offsets))
    cut = data.draw(st.integers(0, len(order)))
    tracker = Tracker(0, 0, OffsetMetadata())
    assert all(tracker.arrive(offset) for offset in offsets)
    for offset in order[:cut]:
        tracker.finish(offset)
    position = tracker.advance()
    assert tracker.unfinished == len(order) - cut
    again = Tracker(0, position, parse_metadata(tracker.metadata()))
    served = [offset for offset in offsets if offset >= position and again.arrive(offset)]
    assert served == sorted(order[cut:])
    assert again.unfinished == len(served)
    for offset in served:
        again.finish(offset)
    assert again.advance() == offsets[-1] + 1
    assert again.metadata() == ""


def test_beyond_the_bitmap_only_the_lowest_unfinished_record_may_start():
    tracker = Tracker(0, 7, OffsetMetadata(policy=3))
    last = 7 + MAX_DONE
    for offset in range(7, last + 1):
        tracker.arrive(offset)
    assert tracker.may_start(last - 1) and not tracker.may_start(last) and tracker.is_full
    for offset in range(8, last + 1):
        tracker.finish(offset)
    assert tracker.advance() == 7
    metadata = tracker.metadata()
    assert len(metadata) <= LIMIT and parse_metadata(metadata).policy == 3
    again = Tracker(0, 7, parse_metadata(metadata))
    assert [offset for offset in range(7, last + 1) if again.arrive(offset)] == [7, last]
    tracker.finish(7)
    assert tracker.advance() == last + 1 and not tracker.is_full


def test_a_pinned_record_from_before_the_position_needs_no_note():
    tracker = Tracker(0, 10, OffsetMetadata())
    tracker.finish(4)
    assert (tracker.unfinished, tracker.advance(), tracker.metadata()) == (0, 10, "")
