import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, astuple, replace

import pytest

from pipeline.domain import events as e


def test_what_is_made_is_frozen():
    made = e.SlotRound(1, round=2)
    assert type(made) is e.SlotRound and (made.slot, made.round) == (1, 2)
    for change in (lambda: setattr(made, "slot", 3), lambda: delattr(made, "slot"), lambda: setattr(made, "new", 3)):
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            change()
    assert made == e.SlotRound(1, 2) and hash(made) == hash(e.SlotRound(1, 2)) and made != e.SlotRound(1, 3)
    assert repr(made) == "SlotRound(slot=1, round=2)" and astuple(made) == (1, 2)


def test_what_is_made_can_be_copied():
    made = e.SlotRound(1, 2)
    assert replace(made, slot=5) == e.SlotRound(5, 2)
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))


def test_it_takes_its_fields_and_no_others():
    assert list(inspect.signature(e.SlotRound).parameters) == ["slot", "round"]
    for values, named in (((1,), {}), ((1, 2, 3), {}), ((1, 2), {"round": 3}), ((1,), {"rounds": 2})):
        with pytest.raises(TypeError, match=r"SlotRound\.__init__\(\)"):
            e.SlotRound(*values, **named)
