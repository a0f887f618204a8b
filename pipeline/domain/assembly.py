"""The assembler: buffers the responses of a prompt until the group is complete, re-asks what is missing, and lets go.

A slot has one current round; its first ResponseScored counts. Members are the first arrivals. Every group leaves the
table exactly once, assembled, rejected or expired; if slots are unanswered then, GroupClosed tells the generators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.grouping import largest_payload, member_of, payload_bytes, scores_of, version_range
from pipeline.domain.ids import number_of, parse_group_id
from pipeline.domain.open_groups import Assembly, OpenGroup, Slot, SlotState
from pipeline.domain.rules import Rules
from pipeline.domain.topology import InvariantBroken, MembersCodec, Output, StageName, Topic
from pipeline.domain.vocabulary import (
    DiscardReason,
    ExpiryReason,
    Failure,
    FinishReason,
    Grading,
    Purpose,
    Reason,
    category_of,
)

EVAL_ROUNDS = 2
"""A failed evaluation sample is tried once more; then its failure is its answer."""


class Assembler:
    """Step of the assembler, one state per partition of `rollouts`."""

    name = StageName.ASSEMBLER
    state_type: type[Any] | None = Assembly

    def __init__(self, rules: Rules, members: MembersCodec) -> None:
        self.rules = rules
        self.members = members

    def initial(self, partition: int) -> Assembly:
        """No group is open."""
        return Assembly(partition)

    def entries(self, state: Assembly) -> int:
        """Open groups."""
        return len(state.open)

    def step(self, state: Assembly, event: e.Event) -> Iterator[Output]:
        """Fold one record of `rollouts`."""
        match event:
            case e.ResponseScored():
                return self._on_scored(state, event)
            case e.GroupOpened():
                return self._on_opened(state, event)
            case e.Tick():
                return self._on_tick(state, event)
            case e.GroupCancelled():
                return self._on_cancelled(state, event)
            case e.Undecodable():
                return self._on_undecodable(state, event)
            case e.RunFinished():
                return self._on_finished(state, event)
            case _:
                raise InvariantBroken(f"the assembler cannot take {type(event).__name__}")

    def _on_opened(self, state: Assembly, event: e.GroupOpened) -> Iterator[Output]:
        n = number_of(event.group_id)
        if n <= state.highest:
            raise InvariantBroken(f"group {event.group_id} opened again or out of order, after number {state.highest}")
        state.highest = n
        now = state.clock(event.purpose)
        lease = now + self.rules.assembly.lease_ms
        slots = [Slot(1, lease, SlotState.WAITING, False) for _ in range(event.group_size + event.redundancy)]
        state.add(n, OpenGroup(event, state.run_ms, now + self.rules.assembly.deadline_ms, 0, slots, []))
        return iter(())

    # ------------------------------------------------------------------------------------------------------ responses

    def _on_scored(self, state: Assembly, event: e.ResponseScored) -> Iterator[Output]:
        where = parse_group_id(event.group_id)
        if where is None or where.partition != state.partition or where.n > state.highest:
            yield self._discard(state, event, DiscardReason.UNKNOWN_GROUP)
            return
        group = state.open.get(where.n)
        if group is None:
            yield self._discard(state, event, DiscardReason.LATE)
            return
        slot = group.slots[event.slot] if 0 <= event.slot < len(group.slots) else None
        if slot is None or event.round != slot.round or slot.state is SlotState.ANSWERED:
            yield self._discard(state, group.without_shared_payload(event), DiscardReason.DUPLICATE)
            return
        slot.state = SlotState.ANSWERED
        if event.discard is None or self._takes_failures(group, event):
            group.members.append(member_of(event))
        else:
            group.lose(event)
            yield self._discard(state, event, event.discard)
        if len(group.members) == group.opened.group_size:
            yield from self._assemble(state, where.n, group, event.at)
        else:
            yield from self._make_up(state, where.n, group, event.at)

    def _takes_failures(self, group: OpenGroup, event: e.ResponseScored) -> bool:
        """Whether what would be discarded is a member: a failed arrival in agentic counting, and the last word of an
        evaluation sample. What the response filter refused is none, however it is counted."""
        if group.opened.purpose is Purpose.EVAL:
            return event.round >= EVAL_ROUNDS
        return self.rules.assembly.count == "any" and event.discard is not DiscardReason.FILTERED

    def _make_up(self, state: Assembly, n: int, group: OpenGroup, at: int) -> Iterator[Output]:
        """Ask again for exactly what is missing; without rounds left the group is over."""
        missing = group.missing()
        if missing <= 0:
            return
        evaluation = group.opened.purpose is Purpose.EVAL
        chosen = group.refillable(EVAL_ROUNDS if evaluation else self.rules.assembly.max_rounds)[:missing]
        if len(chosen) < missing:
            reason = Reason.DEADLINE if group.has_silent() else Reason.RESPONSE_RETRIES_EXHAUSTED
            yield from self._end_broken(state, n, group, reason, at)
            return
        due = state.clock(group.opened.purpose) + self.rules.assembly.lease_ms
        for i in chosen:
            group.slots[i] = Slot(group.slots[i].round + 1, due, SlotState.WAITING, False)
        state.reschedule(n, group)
        yield self._request(state, group, chosen, at)

    def _request(self, state: Assembly, group: OpenGroup, slots: list[int], at: int) -> Output:
        o = group.opened
        wanted = tuple(e.SlotRound(i, group.slots[i].round) for i in slots)
        asked = e.ResponsesRequested(
            o.group_id, o.prompt, o.purpose, o.eval, o.root, o.replaces, o.attempt, o.seed, o.group_size, o.redundancy,
            o.min_version, o.task or b"", wanted, at,
        )  # fmt: skip
        return Output(Topic.PROMPTS, state.partition, asked)

    def _discard(self, state: Assembly, event: e.ResponseScored, reason: DiscardReason) -> Output:
        gone = e.ResponseDiscarded(
            event.group_id, event.slot, event.round, event.payload_key, event.payload_bytes, event.response_tokens,
            reason, event.failure, event.at,
        )  # fmt: skip
        return Output(Topic.DISCARDS, state.partition, gone)

    # -------------------------------------------------------------------------------------------------------- endings

    def _assemble(self, state: Assembly, n: int, group: OpenGroup, at: int) -> Iterator[Output]:
        o = group.opened
        members = _in_slot_order(group)
        oldest, newest = version_range(members)
        assembled = e.GroupAssembled(
            o.group_id, o.prompt, o.purpose, o.eval, o.group_size, self.members.encode(members), payload_bytes(members),
            largest_payload(members), oldest, newest, scores_of(members), state.run_ms - group.opened_run_ms, at,
        )  # fmt: skip
        yield Output(Topic.GROUPS, self._filter_partition(state), assembled)
        yield from self._close(state, n, group, at)

    def _filter_partition(self, state: Assembly) -> int:
        return state.partition if self.rules.filter_partitions == self.rules.partitions else 0

    def _end_broken(self, state: Assembly, n: int, group: OpenGroup, reason: Reason, at: int) -> Iterator[Output]:
        """A training group is rejected; an evaluation group is passed on with what it lacks as failed members."""
        o = group.opened
        if o.purpose is Purpose.EVAL:
            filled = {m.slot for m in group.members}
            absent = [i for i in range(o.group_size) if i not in filled]
            group.members += [_absent(i, group.slots[i].round) for i in absent]
            yield from self._assemble(state, n, group, at)
            return
        members = _in_slot_order(group)
        oldest, newest = version_range(members)
        setbacks = {} if reason is Reason.UNDECODABLE else group.setbacks(late=reason is Reason.DEADLINE)
        rejected = e.GroupRejected(
            o.group_id, o.prompt, reason, category_of(reason), None, None, f"drop_{reason}", _told(group, setbacks),
            self.members.encode(members), payload_bytes(members), largest_payload(members), oldest, newest, None,
            self.name, None, None, {name: float(many) for name, many in setbacks.items()}, "", {}, (), at,
        )  # fmt: skip
        yield Output(Topic.LEDGER, 0, rejected)
        yield from self._close(state, n, group, at)

    def _close(self, state: Assembly, n: int, group: OpenGroup, at: int) -> Iterator[Output]:
        state.remove(n)
        if group.unanswered() or group.asked_again():
            yield Output(Topic.PROMPTS, state.partition, e.GroupClosed(group.opened.group_id, at))

    def _on_cancelled(self, state: Assembly, event: e.GroupCancelled) -> Iterator[Output]:
        n = number_of(event.group_id)
        group = state.open.get(n)
        if group is None:
            return
        o = group.opened
        members = _in_slot_order(group)
        expired = e.GroupExpired(
            o.group_id, o.prompt.domain, o.purpose, ExpiryReason.RUN_OVER, self.members.encode(members),
            payload_bytes(members), None, event.at,
        )  # fmt: skip
        yield Output(Topic.LEDGER, 0, expired)
        yield from self._close(state, n, group, event.at)

    def _on_undecodable(self, state: Assembly, event: e.Undecodable) -> Iterator[Output]:
        where = parse_group_id(event.group_id)
        group = state.open.get(where.n) if where and where.partition == state.partition else None
        if where and group:
            yield from self._end_broken(state, where.n, group, Reason.UNDECODABLE, event.at)

    def _on_finished(self, state: Assembly, event: e.RunFinished) -> Iterator[Output]:
        if state.open:
            raise InvariantBroken(f"the run is finished, but groups {sorted(state.open)[:5]} are open")
        yield Output(Topic.GROUPS, self._filter_partition(state), event)
        yield Output(Topic.DISCARDS, state.partition, event)

    # ----------------------------------------------------------------------------------------------------------- time

    def _on_tick(self, state: Assembly, event: e.Tick) -> Iterator[Output]:
        if event.run_ms is None or event.run_ms < state.run_ms:
            raise InvariantBroken(f"run time went from {state.run_ms} to {event.run_ms} ms")
        for n in state.advance(event.run_ms):
            yield from self._on_time(state, n, state.open[n], event.at)

    def _on_time(self, state: Assembly, n: int, group: OpenGroup, at: int) -> Iterator[Output]:
        """A lease that ran out asks once more for the same slot and round; the second time the slot is silent."""
        now = state.clock(group.opened.purpose)
        again: list[int] = []
        for i, slot in enumerate(group.slots):
            if slot.state is not SlotState.WAITING or slot.due > now:
                continue
            if slot.asked_again:
                slot.state = SlotState.SILENT
            else:
                group.slots[i] = Slot(slot.round, now + self.rules.assembly.lease_ms, SlotState.WAITING, True)
                again.append(i)
        if now >= group.deadline:
            yield from self._end_broken(state, n, group, Reason.DEADLINE, at)
            return
        state.reschedule(n, group)
        yield from self._make_up(state, n, group, at)
        if again and n in state.open:
            yield self._request(state, group, again, at)


def _in_slot_order(group: OpenGroup) -> tuple[e.Member, ...]:
    return tuple(sorted(group.members, key=lambda m: m.slot))


def _told(group: OpenGroup, setbacks: dict[str, int]) -> str | None:
    """What kept a group from being whole, in words; the last lost response says more."""
    text = ", ".join(f"{many} {name}" for name, many in setbacks.items())
    return f"{text}: {group.last_lost}" if text and group.last_lost else text or None


def _absent(slot: int, round: int) -> e.Member:
    """An evaluation sample that never came."""
    return e.Member(
        slot, round, None, 0, None, None, 0.0, {}, None, Grading.FAILED, Failure.TIMEOUT, FinishReason.ABORT, False,
        False, False, 0, 0, -1, -1, "",
    )  # fmt: skip
