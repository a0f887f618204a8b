"""A run that goes on from another's checkpoint, under other filters, once that one is gone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Purpose
from pipeline.forks import configured, fork_run, read_old
from pipeline.local import Services
from pipeline.log.admin import delete_run
from pipeline.runs import StartedRun, connection_of
from tests.e2e.harness import BASE, ROLES, Run, event_of

pytestmark = pytest.mark.e2e


class Fork(Run):
    """A run made from the position of the one in its folder that `origin` names."""

    def made(self, config: dict[str, Any]) -> StartedRun:
        origin = config.pop("origin")
        file = Path(self.folder, "fork.yaml")
        file.write_text(yaml.safe_dump({**BASE, **config, "run": origin}))
        old = read_old(connection_of(self.settings, origin))
        return fork_run(old, configured(old, self.name, file), self.settings)[0]


def test_a_forked_run_goes_on_with_weights_and_prompts_and_needs_nothing_of_its_origin(
    make_run: Callable[..., Run], services: Services
):
    first = make_run(steps=6, filters={"default": [{"type": "zero_std"}]})
    first.hold("train-3")
    host = first.start(*ROLES)
    first.reached("train-3")
    saved = first.until_event(e.CheckpointSaved, 2)[-1]
    host.kill()
    first.read_to_end()
    first.release("train-3")
    ledger = [event_of(record) for record in first.log[Topic.LEDGER]]
    opened = [event for event in ledger[: ledger.index(saved)] if isinstance(event, e.GroupOpened)]
    drawn = 1 + max(event.prompt.ordinal for event in opened)
    weights = (first.folder / first.name / saved.path).read_text()

    dice = {"factory": "tests.e2e.plugins:Dice", "options": {"forked_at": 2}}
    filters = {"default": [{"type": "no_filter"}]}
    run = Fork(services, f"{first.name}-2", first.folder, origin=first.name, steps=2, filters=filters, engine=dice)
    try:
        before = sum(map(len, first.log.values()))
        first.read_to_end()
        assert sum(map(len, first.log.values())) == before > 0
        shutil.rmtree(first.folder / first.name)
        host = run.start(*ROLES, slot="b")
        delete_run(first.connection)
        run.finish()
        run.ended_well(host)
        assert run.started.started.filter_hashes["a"] != first.started.started.filter_hashes["a"]
        verdicts = {event.filter_hash for event in run.events(e.GroupAccepted)}
        assert verdicts == {run.started.started.filter_hashes["a"]}
        begun = run.events(e.CheckpointSaved)[0]
        assert (saved.version, begun.version, begun.sha256) == (2, 0, saved.sha256)
        assert (run.folder / run.name / begun.path).read_text() == weights
        assert json.loads(run.weights())["steps"] == 4
        places = [event.prompt.ordinal for event in run.events(e.GroupOpened) if event.purpose is Purpose.TRAIN]
        assert places == list(range(drawn, drawn + len(places))) and len(places) >= 4
    finally:
        run.close()
