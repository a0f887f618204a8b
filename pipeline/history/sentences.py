"""What an event says of a group, as a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.domain import events as e
from pipeline.domain.grouping import mean
from pipeline.domain.topology import MembersCodec
from pipeline.domain.vocabulary import DiscardReason, Grading
from pipeline.history import reasons


def opening(event: e.GroupOpened) -> str:
    """Opened for what, and in whose place."""
    prompt = event.prompt
    place = f"{prompt.id} ({prompt.domain}, place {prompt.ordinal} of pass {prompt.epoch + 1})"
    more = f" and {event.redundancy} to spare" if event.redundancy else ""
    if event.eval is not None:
        return f"opened for evaluation {event.eval.id} of policy {event.eval.version}: prompt {place}"
    text = f"opened for prompt {place}: {event.group_size} responses{more} of policy {event.min_version} or newer"
    return f"{text}; replaces {event.replaces}, attempt {event.attempt}" if event.replaces else text


def request(event: e.ResponsesRequested) -> str:
    """Asked again for which slots."""
    return "asked again: " + ", ".join(_slot(s.slot, s.round) for s in event.slots)


def generated(event: e.ResponseGenerated) -> str:
    """Sampled by whom, how fast."""
    who = f"{_slot(event.slot, event.round)} by {event.generator} after {event.sampling_ms / 1000:.1f} s"
    if event.failure is not None:
        return f"{who}: failed, {event.failure}" + (f" ({event.detail})" if event.detail else "")
    versions = _versions(event.oldest_version, event.newest_version)
    return f"{who}: {event.response_tokens} tokens of policy {versions}, {event.payload_bytes} bytes"


def scored(event: e.ResponseScored) -> str:
    """Judged how: the reward and what it is made of, whether anybody knows it, and why it can't be a member."""
    text = f"{_slot(event.slot, event.round)} judged in {event.grading_ms / 1000:.1f} s: {_worth(event)}"
    why = reasons.unused(event)
    if event.discard is DiscardReason.FILTERED:
        return f"{text}; the response filter refuses it{f' ({why})' if why else ''}"
    return f"{text} ({why})" if why else text


def discarded(event: e.ResponseDiscarded, scored: e.ResponseScored | None = None) -> str:
    """Why a response is no member; `scored`: what was said when it was judged, if known."""
    return reasons.discarded(event, _slot(event.slot, event.round), scored)


def assembled(event: e.GroupAssembled, codec: MembersCodec, after_s: float | None) -> str:
    """Complete with which rewards."""
    rewards = [m.reward for m in codec.decode(event.members)]
    took = f" after {after_s:.1f} s" if after_s is not None else ""
    return f"assembled{took}: rewards {_rewards(rewards)}, {event.payload_bytes} bytes"


def evaluated(event: e.GroupEvaluated) -> str:
    """The answer to an evaluation prompt."""
    average = f", mean reward {event.mean_reward:g}" if event.mean_reward is not None else ""
    return f"evaluated: {event.graded} graded, {event.ungraded} ungraded, {event.failed} failed{average}"


def formed(event: e.BatchFormed, group: e.BatchGroup) -> str:
    """In which batch."""
    stale = event.follows_version - group.oldest_version
    weight = f", weight {group.weight:g}" if group.weight != 1.0 else ""
    place = f"batch {event.batch} of {len(event.groups)} groups, to follow policy {event.follows_version}"
    return f"in {place}: staleness {stale}{weight}"


def dropped(event: e.PayloadsDropped) -> str:
    """Whose payloads are gone."""
    return f"{len(event.keys)} payload{'s' * (len(event.keys) != 1)} dropped: {event.reason}"


def _slot(slot: int, round: int) -> str:
    return f"slot {slot}" if round == 1 else f"slot {slot} (round {round})"


def _worth(event: e.ResponseScored) -> str:
    if event.reward is None:
        return str(event.grading)
    text = f"reward {event.reward:g}"
    if event.penalties and event.raw_score is not None:
        text += f" (score {event.raw_score:g}, penalties {event.penalties:g})"
    return text if event.grading is Grading.GRADED else f"{text}, though nobody judged it"


def _versions(oldest: int, newest: int) -> str:
    return str(oldest) if oldest == newest else f"{oldest} to {newest}"


def _rewards(rewards: Sequence[float | None]) -> str:
    shown = " ".join("–" if r is None else f"{r:g}" for r in rewards[:16])
    known = [r for r in rewards if r is not None]
    many = f" … (mean {mean(known):.3g} of {len(rewards)})" if len(rewards) > 16 and known else ""
    return shown + many
