"""What an assembler asks for: told from its inputs and outputs, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain import events as e
from pipeline.domain.assembly import EVAL_ROUNDS
from pipeline.domain.ids import number_of
from pipeline.domain.open_groups import OpenGroup, SlotState
from pipeline.domain.rules import Rules
from pipeline.domain.topology import Output
from pipeline.domain.vocabulary import Purpose, Reason

OpenGroups = dict[int, OpenGroup]


class Asking:
    """`times`: how often a slot was asked for in its current round, by group number and slot."""

    def __init__(self, name: str, rules: Rules) -> None:
        self.name, self.rules = name, rules
        self.times: dict[tuple[int, int], tuple[int, int]] = {}

    def problems(self, event: e.Event, before: OpenGroups, after: OpenGroups, outputs: list[Output]) -> Iterator[str]:
        """What is wrong with the answer to one input. A group in `before` that has left is as it was when it did."""
        if isinstance(event, e.GroupOpened):
            n, slots = number_of(event.group_id), event.group_size + event.redundancy
            self.times |= {(n, slot): (1, 1) for slot in range(slots)}
        for output in outputs:
            match output.event:
                case e.ResponsesRequested() as asked:
                    group = after[number_of(asked.group_id)]
                    yield from self._once(asked, isinstance(event, e.Tick))
                    yield from self._exactly(asked, group)
                    yield from self._in_order(asked, group)
                case e.GroupRejected(reason=Reason.RESPONSE_RETRIES_EXHAUSTED) as rejected:
                    yield from self._exhausted(rejected, before[number_of(rejected.group_id)])
                case _:
                    continue
        if isinstance(event, e.Tick):
            yield from self._stands_still(before, outputs)

    def _once(self, asked: e.ResponsesRequested, tick: bool) -> Iterator[str]:
        """Only a lease asks for the same round again, once; anything else for the round after it."""
        n, who = number_of(asked.group_id), f"{self.name} asks {asked.group_id}"
        most = EVAL_ROUNDS if asked.purpose is Purpose.EVAL else self.rules.assembly.max_rounds
        for wanted in asked.slots:
            round, times = self.times[n, wanted.slot]
            again = wanted.round == round
            if (wanted.round != round + 1 and not again) or (again and (times > 1 or not tick)):
                yield f"{who} for slot {wanted.slot} in round {wanted.round} after round {round}, asked {times} times"
            if wanted.round > most:
                yield f"{who} for slot {wanted.slot} in round {wanted.round} of {most}"
            self.times[n, wanted.slot] = (wanted.round, times + 1 if again else 1)

    def _exactly(self, asked: e.ResponsesRequested, group: OpenGroup) -> Iterator[str]:
        """What is missing is asked for, no more."""
        if any(self.times[number_of(asked.group_id), s.slot][1] == 1 for s in asked.slots) and group.missing() != 0:
            yield f"{self.name} asks {len(asked.slots)} of {asked.group_id}, which then lacks {group.missing()}"

    def _in_order(self, asked: e.ResponsesRequested, group: OpenGroup) -> Iterator[str]:
        """Of failed slots those of the lowest round, then the lowest slots."""
        n = number_of(asked.group_id)
        chosen = [(s.round - 1, s.slot) for s in asked.slots if self.times[n, s.slot][1] == 1]
        left = [(group.slots[i].round, i) for i in self._free(group)]
        if chosen and left and max(chosen) > min(left):
            yield f"{self.name} asks {asked.group_id} for (round, slot) {chosen}, though {min(left)} comes first"

    def _free(self, group: OpenGroup) -> list[int]:
        """Slots that failed and may be asked again."""
        most = EVAL_ROUNDS if group.opened.purpose is Purpose.EVAL else self.rules.assembly.max_rounds
        members = [m.slot for m in group.members]
        slots = enumerate(group.slots)
        return [i for i, s in slots if s.state is SlotState.ANSWERED and i not in members and s.round < most]

    def _exhausted(self, rejected: e.GroupRejected, group: OpenGroup) -> Iterator[str]:
        free, missing = len(self._free(group)), group.missing()
        if free >= missing:
            yield f"{self.name} rejects {rejected.group_id}: {missing} are missing, and {free} slots have rounds left"

    def _stands_still(self, before: OpenGroups, outputs: list[Output]) -> Iterator[str]:
        """While an evaluation group is open, time does nothing to training groups."""
        if all(group.opened.purpose is Purpose.TRAIN for group in before.values()):
            return
        for output in outputs:
            n = number_of(getattr(output.event, "group_id", ""))
            if n in before and before[n].opened.purpose is Purpose.TRAIN:
                yield f"{self.name} answers time by {type(output.event).__name__} of {n}, while an evaluation is open"
