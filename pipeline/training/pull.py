"""From the keys in a batch to rows: the payloads are fetched, checked, and matched with what the log says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pipeline.domain.events import BatchGroup, Member
from pipeline.domain.topology import MembersCodec
from pipeline.domain.vocabulary import FinishReason
from pipeline.store.errors import PayloadDamaged
from pipeline.store.format import decode
from pipeline.store.payloads import PayloadStore
from pipeline.training.batches import IdType, Row


class Lost(Exception):
    """Payloads of these groups are missing or damaged."""

    def __init__(self, groups: tuple[str, ...], detail: str) -> None:
        super().__init__(detail)
        self.groups = groups


class NoLogprobs(ValueError):
    """A response without the sampler's log-probabilities: the policy ratio and the correction can't be computed."""

    def __init__(self, group: str, slot: int) -> None:
        super().__init__(
            f"group {group}, slot {slot}: its payload has no log-probabilities, which the policy ratio and the "
            "correction are computed from; have the engine return one for each response token"
        )


def pull(store: PayloadStore, members: MembersCodec, groups: Sequence[BatchGroup]) -> list[Row]:
    """The rows of a batch, group by group. Raises Lost, NoLogprobs, or StoreUnreachable where Redis doesn't
    answer."""
    wanted = [(i, group, member) for i, group in enumerate(groups) for member in members.decode(group.members)]
    keyed = [member for _, _, member in wanted if member.payload_key is not None]
    found = store.get_many([m.payload_key or "" for m in keyed], [m.payload_bytes for m in keyed])
    values = dict(zip([m.payload_key for m in keyed], found, strict=True))
    rows: list[Row] = []
    lost: dict[str, str] = {}
    for index, group, member in wanted:
        value = values.get(member.payload_key)
        try:
            if value is None:
                lost[group.group_id] = f"{member.payload_key} is missing"
            else:
                rows.append(_row(index, group, member, value))
        except PayloadDamaged as damage:
            lost[group.group_id] = f"{member.payload_key}: {damage}"
    if lost:
        raise Lost(tuple(lost), "; ".join(list(lost.values())[:3]))
    return rows


def _row(index: int, group: BatchGroup, member: Member, value: bytes) -> Row:
    payload = decode(value)
    if payload.logprobs is None:
        raise NoLogprobs(group.group_id, member.slot)
    return Row(
        payload.prompt_ids.data,
        payload.response_ids.data,
        payload.logprobs.data,
        payload.loss_mask.data,
        member.reward if member.reward is not None else 0.0,
        index,
        (member.oldest_version, member.newest_version),
        group.weight,
        member.finish_reason is FinishReason.LENGTH,
        cast(IdType, payload.response_ids.dtype),
    )
