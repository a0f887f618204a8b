"""Episodes of several turns with a real environment, some of which break, through the whole pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Grading, Reason
from pipeline.log.codec import Members
from pipeline.store.format import decode
from tests.e2e.harness import ROLES, Run

pytestmark = pytest.mark.e2e
WALK: dict[str, Any] = {
    "steps": 2,
    "prompts": {"factory": "pipeline.prompts.walk:WalkPrompts"},
    "engine": {"factory": "tests.e2e.plugins:Stroller"},
    "environment": {
        "factory": "pipeline.environments.walk:Walk",
        "options": {"breaks": 8},
        "max_turns": 4,
        "step_timeout": "300ms",
        "episode_timeout": "30s",
        "on_failure": "zero",
    },
    "publication": "refresh",
    "verifiers": {},
    "domains": {"walk": {"quota": 6}},
    "group_size": 3,
    "redundancy": 1,
    "assembly": {"count": "any", "lease": "60s", "deadline": "300s"},
    "filters": {"default": [{"type": "drop_flag"}]},
    "guard": {"default": {"type": "roll_ratio", "max_ratio": 0.15}},
    "replacement": "new_seed",
}


def flagged(members: tuple[e.Member, ...]) -> bool:
    return any(m.drop_flag or m.env_failed or m.env_timeout for m in members)


def test_episodes_that_break_count_and_the_filter_sees_them(make_run: Callable[..., Run]):
    run = make_run(**WALK)
    run.hold("train-1")
    host = run.start(*ROLES)
    run.reached("train-1")
    batch = run.until_event(e.BatchFormed)[0]
    check_payloads(run, [m for group in batch.groups for m in Members().decode(group.members)])
    run.release("train-1")
    run.ended_well(host)
    run.finish()
    assert run.events(e.ResponsesRequested, Topic.PROMPTS) == [], "redundancy replaces no single bad episode"
    assert run.events(e.GroupClosed, Topic.PROMPTS), "the slowest of each group is not waited for"
    accepted, rejected = run.events(e.GroupAccepted), run.events(e.GroupRejected)
    assert {group.reason for group in rejected} == {Reason.DROP_FLAG}
    kept = [group for group in accepted if group.kept_by_guard]
    assert kept, "a third of the groups is broken, more than the guard lets go"
    for group in (*accepted, *rejected):
        members = Members().decode(group.members)
        assert len(members) == 3
        is_candidate = group in kept or isinstance(group, e.GroupRejected)
        assert flagged(members) == is_candidate
    scored = run.events(e.ResponseScored, Topic.ROLLOUTS, lambda s: s.env_failed or s.env_timeout)
    assert scored and all((s.reward, s.grading, s.discard) == (0.0, Grading.UNGRADED, None) for s in scored)
    assert {s.detail.split(": ", 1)[1] for s in scored if s.detail} <= {
        "the environment's step raised Broken: the ice broke",
        "the environment's step took over 0.3 s",
    }
    issued = {opened.group_id: opened for opened in run.events(e.PromptIssued, Topic.PROMPTS)}
    answers = [(issued[opened.replaces], opened) for opened in issued.values() if opened.replaces]
    assert any(first.group_id in {group.group_id for group in rejected} for first, _ in answers)
    for first, again in answers:
        assert again.prompt == first.prompt and again.seed != first.seed, "the same task, from another start"


def check_payloads(run: Run, members: list[e.Member]) -> None:
    """Each has a segment for each turn, or nothing to train on; its spans name the policies in the event."""
    values = run.store.get_many([m.payload_key or "" for m in members], [m.payload_bytes for m in members])
    openings: dict[str, set[bytes]] = {}
    for member, value in zip(members, values, strict=True):
        assert value is not None and member.payload_key is not None
        payload = decode(value)
        mask, turns = bytes(payload.loss_mask.data), len(payload.text) // 3
        assert mask == (bytes(len(mask)) if flagged((member,)) else bytes([0, 0]) + bytes([1, 0, 0]) * turns)
        assert [span[0] for span in payload.version_spans][:1] == [0] and payload.version_spans[-1][1] == len(mask)
        versions = [span[2] for span in payload.version_spans]
        assert (min(versions), max(versions)) == (member.oldest_version, member.newest_version)
        openings.setdefault(member.payload_key.partition("}")[0], set()).add(bytes(payload.response_ids.data)[:8])
    assert all(len(starts) == 1 for starts in openings.values()), "members of a group share their start"
    assert len({start for starts in openings.values() for start in starts}) > 1
