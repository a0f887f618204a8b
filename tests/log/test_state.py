from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from pipeline.domain.topology import StageName
from pipeline.log.binary import Unwritable
from pipeline.log.codec import Poison
from pipeline.log.derive import schema_of
from pipeline.log.state import StateCodec

from .toy import Counts, OtherCounts, opened


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(slots=True)
class Inner:
    name: str
    weights: list[float]


@dataclass(slots=True)
class Everything:
    number: int
    ratio: float
    on: bool
    text: str
    raw: bytes
    colour: Colour
    maybe: Inner | None
    by_name: dict[str, Inner]
    by_number: dict[int, Inner]
    by_colour: dict[Colour, int]
    ordered_set: dict[str, None]
    queue: deque[int]
    pair: tuple[int, ...]
    either: int | str | None
    total: float = field(init=False, metadata={"derived": True})

    def __post_init__(self):
        self.total = sum(weight for inner in self.by_name.values() for weight in inner.weights)


def everything():
    inner = {"z": Inner("z", [0.1, 0.2]), "a": Inner("a", [])}
    return Everything(
        number=-1,
        ratio=0.1,
        on=True,
        text="é",
        raw=b"\0\xff",
        colour=Colour.BLUE,
        maybe=Inner("m", [1.0]),
        by_name=inner,
        by_number={9: Inner("nine", [9.0]), 1: Inner("one", [])},
        by_colour={Colour.RED: 3},
        ordered_set={"y": None, "b": None},
        queue=deque([3, 1, 2]),
        pair=(4, 5),
        either="text",
    )


def test_a_state_is_the_same_after_a_round_trip():
    codec, state = StateCodec(Everything), everything()
    assert codec.decode(codec.encode(state)) == state
    assert codec.encode(codec.decode(codec.encode(state))) == codec.encode(state)


def test_the_order_of_dicts_survives():
    codec = StateCodec(Everything)
    state = codec.decode(codec.encode(everything()))
    assert (
        list(state.by_name) == ["z", "a"] and list(state.by_number) == [9, 1] and list(state.ordered_set) == ["y", "b"]
    )


def test_what_is_derived_is_built_again():
    codec = StateCodec(Everything)
    assert "total" not in [f["name"] for f in schema_of(Everything)["fields"]]
    assert codec.decode(codec.encode(everything())).total == 0.1 + 0.2


def test_another_shape_has_another_fingerprint():
    assert len(StateCodec(Counts).fingerprint) == 8
    assert StateCodec(Counts).fingerprint == StateCodec(Counts).fingerprint
    assert StateCodec(Counts).fingerprint != StateCodec(OtherCounts).fingerprint


def test_a_state_may_hold_events():
    @dataclass(slots=True)
    class Holding:
        open: dict[str, type(opened("1@0"))]

    codec = StateCodec(Holding)
    assert codec.decode(codec.encode(Holding({"1@0": opened("1@0")}))).open["1@0"] == opened("1@0")


def test_a_set_is_refused():
    @dataclass
    class Unordered:
        names: set[str]

    with pytest.raises(TypeError, match=r"Unordered_names: set\[str\] has no place"):
        StateCodec(Unordered)


def test_a_value_of_another_type_is_not_stored():
    with pytest.raises(Unwritable, match=r"Counts\.partition = 'zero'"):
        StateCodec(Counts).encode(Counts("zero"))


def test_bytes_that_are_no_state_are_poison():
    codec = StateCodec(Counts)
    for damage in (b"", b"\0", codec.encode(Counts(0, {"1@0": 3}))[:-1], codec.encode(Counts(0)) + b"x"):
        with pytest.raises(Poison):
            codec.decode(damage)


def test_the_states_of_all_stages_can_be_stored():
    from pipeline.domain.assembly import Assembler
    from pipeline.domain.batching import Batcher
    from pipeline.domain.filters.stage import Filter
    from pipeline.domain.reaping import Reaper
    from pipeline.domain.scheduling import Scheduler
    from pipeline.domain.window_batching import WindowBatcher

    stages = (Assembler, Batcher, Filter, Reaper, Scheduler, WindowBatcher)
    assert {stage.name for stage in stages} < set(StageName)
    assert len({StateCodec(stage.state_type).fingerprint for stage in stages}) == len(stages)
