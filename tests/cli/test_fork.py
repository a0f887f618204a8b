"""A new run from an old one's position: what is carried over, what is refused, and that a failure leaves nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from pipeline.config import ConfigError, load_settings, parse
from pipeline.domain import events as e
from pipeline.domain.rules import rules_of
from pipeline.domain.topology import Output, Topic
from pipeline.forks import fork_run, read_old
from pipeline.local import Services
from pipeline.log.admin import create_run, list_runs
from pipeline.log.client import Connection, fact_producer
from pipeline.log.facts import write_facts
from pipeline.log.reader import read_topic
from pipeline.log.start import read_run_started
from pipeline.log.topics import topic_name
from tests.domain.given import opened, trained
from tests.e2e.harness import BASE

from .conftest import Tamis, eventually

pytestmark = pytest.mark.contract
WEIGHTS = b'{"steps": 2, "seen": ""}'


def say_that(run: Connection, *events: e.Event) -> None:
    write_facts(run, "test", [Output(Topic.LEDGER, 0, event) for event in events])


def files_of(run: str) -> Path:
    return Path(".tamis/files") / run / "checkpoints"


def begun(run: Connection, step: int = 2) -> e.CheckpointSaved:
    """Writes what a run that took so many steps has: a checkpoint file, prompts, and the ledger that says so."""
    folder = files_of(run.run)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"v{step}.bin").write_bytes(WEIGHTS)
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    saved = e.CheckpointSaved(step, f"checkpoints/v{step}.bin", digest, tuple(range(1, step + 1)), 0)
    places = [e.PromptRef(f"a-0-{n}", "a", n, 0) for n in range(2 * step + 3)]
    groups = [opened(f"{n}@0", 2, domain="a", prompt=at) for n, at in enumerate(places)]
    say_that(run, *groups, *[trained(n) for n in range(1, step + 1)], saved)
    return saved


def records(run: Connection) -> list[bytes | None]:
    return [record.value for record in read_topic(run, Topic.LEDGER)]


def other(run: Connection, name: str) -> Connection:
    return replace(run, run=name)


def test_a_new_run_begins_where_the_old_one_was(tamis: Tamis, created: Connection) -> None:
    saved, new = begun(created), f"{created.run}-2"
    before = records(created)
    answer = tamis("fork", created.run, "--as", new)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(
        f"from run {created.run} at step 2, with the weights of policy version 2\n"
        f"domain a goes on after the 7 prompts that {created.run} had drawn\nrun {new} is created, configuration "
    )
    config = json.loads(read_run_started(other(created, new)).config)
    (copy,) = files_of(new).iterdir()
    assert copy.read_bytes() == WEIGHTS
    assert config["start"] == {
        "run": created.run, "step": 2, "version": 2, "checkpoint": f"checkpoints/{copy.name}", "sha256": saved.sha256,
        "prompts": {"a": 7},
    }  # fmt: skip
    old = json.loads(read_run_started(created).config)
    assert config | {"start": 0, "run": 0, "steps": 0} == old | {"start": 0, "run": 0, "steps": 0}
    assert (old["steps"], config["steps"]) == (3, 1)
    assert records(created) == before and [path.name for path in files_of(created.run).iterdir()] == ["v2.bin"]


def test_a_run_that_was_forked_can_be_forked_itself_once_its_origin_is_gone(
    tamis: Tamis, created: Connection, write: Callable[..., Path]
) -> None:
    begun(created)
    second, third = f"{created.run}-2", f"{created.run}-3"
    longer = ("--config", write(run="anything", steps=9), "--set", "checkpoint_every=1")
    assert tamis("fork", created.run, "--as", second, *longer).code == 0
    assert tamis("delete", created.run, "--yes").code == 0
    refused = tamis("fork", second, "--as", third)
    assert refused.code == 2 and f"run {second} has no checkpoint yet: its trainer never began" in refused.err
    assert "tamis init CONFIG" in refused.err
    begun(other(created, second), 0)
    found = json.loads(tamis("fork", second, "--as", third, "--json").out)
    assert (found["run"], found["created"], found["start"]["run"]) == (third, True, second)
    assert (found["start"]["step"], found["start"]["prompts"]) == (0, {"a": 7})
    config = json.loads(read_run_started(other(created, third)).config)
    assert (config["run"], config["steps"], config["checkpoint_every"]) == (third, 9, 1)


def test_another_configuration_takes_along_the_prompts_of_the_same_source_alone(
    tamis: Tamis, created: Connection, write: Callable[..., Path]
) -> None:
    begun(created)
    path = write(filters={"default": [{"type": "no_filter"}]})
    answer = tamis("fork", created.run, "--as", f"{created.run}-2", "--config", path, "--json")
    assert answer.code == 0 and json.loads(answer.out)["start"]["prompts"] == {"a": 7}
    there = tamis("init", path, "--set", f"run={created.run}-2", "--if-missing")
    assert there.code == 0 and there.out.startswith(f"run {created.run}-2 is there, with this configuration")
    assert json.loads(answer.out)["filter_hashes"] != read_run_started(created).filter_hashes
    prompts = {"factory": "tests.e2e.plugins:Numbers", "options": {"sizes": {"a": 500}}}
    answer = tamis("fork", created.run, "--as", f"{created.run}-3", "--config", write(prompts=prompts), "--json")
    assert answer.code == 0 and json.loads(answer.out)["start"]["prompts"] == {"a": 0}
    assert "caution: domain a starts at its first prompt: its source has the content " in answer.err


def test_a_run_of_another_release_with_a_record_that_cannot_be_read_is_forked_up_to_there(
    tamis: Tamis, created: Connection, write: Callable[..., Path]
) -> None:
    older, new = other(created, f"{created.run}b"), f"{created.run}b-2"
    started = read_run_started(created)
    strange = json.dumps(json.loads(started.config) | {"abandoned": 1})
    create_run(older, rules_of(started.config))
    say_that(older, replace(started, run=older.run, config=strange, decision_versions={"scheduler": 0}))
    begun(older)
    producer = fact_producer(older)
    producer.produce(topic_name(older.run, Topic.LEDGER), b"no event", partition=0)
    assert producer.flush(30) == 0
    begun(older, 3)
    assert f"`tamis fork {older.run} --as {new}`" in tamis("status", older.run).err
    refused = tamis("fork", older.run, "--as", new)
    assert refused.code == 2 and f"configuration of run {older.run} as it is" in refused.err
    assert "abandoned: unknown key 'abandoned'" in refused.err and "--config FILE" in refused.err
    answer = tamis("fork", older.run, "--as", new, "--config", write(run=new), "--json")
    assert answer.code == 0 and json.loads(answer.out)["start"]["step"] == 2
    assert f"caution: the ledger of run {older.run} is read as far as it can be" in answer.err
    assert "which is up to ledger/0/11 (no_marker" in answer.err


def test_what_cannot_be_forked_is_refused_with_what_to_do_and_nothing_is_made(
    tamis: Tamis, created: Connection, write: Callable[..., Path]
) -> None:
    run = created.run

    def refused(said: str, *words: object, name: str = f"{run}-2") -> None:
        answer = tamis("fork", run, "--as", name, *words)
        assert answer.code == 2 and said in " ".join(answer.err.split())
        if name != run:
            assert name not in list_runs(created) and list(files_of(name).glob("*")) == []

    refused(f"run {run} has no checkpoint yet: its trainer never began; there is nothing to go on from")
    saved = begun(created, 2)
    refused("--as: run: 'NEW' is no name of a run; expected 1 to 63 of a-z", name="NEW")
    refused(f"--as {run} is the run itself", name=run)
    refused("name it with --config", "--set", "steps=5")
    refused("steps: is 0", "--config", write(steps=0))
    refused(f"run {run} has no checkpoint at or before step 1; there is nothing", "--step", 1)
    file = files_of(run) / "v2.bin"
    file.write_bytes(b"other")
    refused(f"run {run}, step 2: {file.absolute()} (version 2) has SHA-256 d9298a10d1b0…, the ledger says")
    file.unlink()
    refused(f"run {run}, step 2: {saved.path} (version 2) is not under")
    begun(created, 3)
    refused(f"run {run} has taken all of its 3 steps: none is left; go on from an earlier checkpoint (--step N)")
    answer = tamis("fork", "nosuch", "--as", "other")
    assert answer.code == 2 and "there is no run nosuch; `tamis runs` lists" in answer.err


def test_a_fork_that_fails_leaves_nothing_in_the_way_of_the_next(
    tamis: Tamis, created: Connection, write: Callable[..., Path], services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(created)
    name = f"{created.run}-2"
    broken = write(eval_prompts={"factory": "tests.e2e.plugins:Nothing"})
    answer = tamis("fork", created.run, "--as", name, "--config", broken)
    assert "eval_prompts.factory" in answer.err and answer.code == 2 and list(files_of(name).iterdir()) == []
    old = read_old(created)
    huge = parse({**BASE, "run": name, "engine": {**BASE["engine"], "options": {"it": "x" * 11 * 2**20}}})
    settings = load_settings(bootstrap=services.bootstrap, redis_url=services.redis_url, data_dir=".tamis/files")
    with pytest.raises(ConfigError, match="too_large"):
        fork_run(old, huge, settings)
    monkeypatch.setattr("pipeline.runs.MOST_BYTES", 2**30)
    with pytest.raises(KafkaException):  # RunStarted is larger than any record may be, and the topics are made
        fork_run(old, huge, settings)
    assert list(files_of(name).iterdir()) == []
    eventually(lambda: name not in list_runs(created), "its topics are gone")
    assert tamis("fork", created.run, "--as", name).code == 0
    taken = tamis("fork", created.run, "--as", name)
    assert taken.code == 2 and f"run {name}: the name is in use" in taken.err
    assert len(list(files_of(name).iterdir())) == 1


def test_init_takes_a_start_whose_checkpoint_is_there(tamis: Tamis, write: Callable[..., Path], run_name: str) -> None:
    start = {"run": "a", "step": 2, "version": 2, "checkpoint": "checkpoints/v2.bin", "prompts": {"a": 7}}
    path = write(run=run_name, start={**start, "sha256": hashlib.sha256(WEIGHTS).hexdigest()})
    assert tamis("config", "check", path).code == 0
    answer = tamis("init", path)
    assert answer.code == 2 and "start.checkpoint: checkpoints/v2.bin (version 2) is not under" in answer.err
    files_of(run_name).mkdir(parents=True)
    (files_of(run_name) / "v2.bin").write_bytes(WEIGHTS)
    assert tamis("init", path).code == 0
