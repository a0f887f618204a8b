"""Making runs, looking at them, and deleting them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewPartitions

from pipeline.domain import events as e
from pipeline.domain.topology import Output, Topic
from pipeline.domain.vocabulary import Outcome
from pipeline.local import Services
from pipeline.local.probe import wait_until
from pipeline.log.admin import create_run
from pipeline.log.client import Connection, admin_client
from pipeline.log.codec import Members
from pipeline.log.facts import write_facts
from pipeline.log.reader import read_topic
from pipeline.log.start import read_run_started
from pipeline.log.topics import topic_name
from pipeline.runs import open_run
from tests.e2e.harness import BASE
from tests.log.samples import full

from .conftest import ROOT, Consumer, Tamis, completed, eventually

pytestmark = pytest.mark.contract
PROMPTS = "pipeline.prompts.jsonl:JsonlPrompts"


def test_a_new_run_is_listed_and_init_says_what_to_start(
    tamis: Tamis, write: Callable[..., Path], run_name: str
) -> None:
    answer = tamis("init", write(run=run_name))
    assert (answer.code, answer.err) == (0, "")
    assert f"run {run_name} is created" in answer.out
    assert f"\n  tamis consume scheduler --run {run_name}\n" in answer.out
    assert answer.out.endswith(f"tamis status {run_name}\n")
    assert run_name in tamis("runs").out.split()


def test_the_long_list_of_runs_says_how_each_stands(
    tamis: Tamis, created: Connection, consume: Callable[..., Consumer]
) -> None:
    def stands() -> dict[str, Any]:
        return next(one for one in json.loads(tamis("runs", "--long", "--json").out) if one["run"] == created.run)

    def closes(event: e.Event) -> None:
        write_facts(created, "test", [Output(Topic.LEDGER, 0, event)])

    assert (stands()["state"], stands()["started_ms"]) == ("idle", read_run_started(created).at)
    scheduler = consume("scheduler", "--run", created.run)
    eventually(lambda: stands()["state"] == "running", "its scheduler at work")
    assert scheduler.end() == 0
    eventually(lambda: stands()["state"] == "idle", "none at work")
    closes(replace(full(e.RunClosing), outcome=Outcome.STOPPED))
    assert stands()["state"] == "closing"
    closes(replace(full(e.RunFinished), outcome=Outcome.STOPPED))
    line = next(line for line in tamis("runs", "-l").out.splitlines() if line.startswith(created.run))
    assert re.fullmatch(rf"{created.run} +\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  stopped", line)


def test_a_run_without_a_beginning_is_listed_as_what_it_is(tamis: Tamis, created: Connection, run_name: str) -> None:
    other = replace(created, run=f"{run_name}cut")
    create_run(other, open_run(created).rules)
    unknown = replace(created, run=f"{run_name}new")
    create_run(unknown, open_run(created).rules)
    write_facts(unknown, "test", [Output(Topic.LEDGER, 0, full(e.RunClosing))])
    answer = tamis("runs", "--long", "--json")
    assert answer.code == 0, answer.err
    found = {one["run"]: one for one in json.loads(answer.out)}
    assert found[other.run] == {"run": other.run, "state": "not started", "started_ms": None}
    assert found[unknown.run] == {"run": unknown.run, "state": "unreadable", "started_ms": None}


def test_a_configuration_that_no_record_holds_is_refused_with_nothing_made(
    tamis: Tamis, write: Callable[..., Path], run_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.runs.MOST_BYTES", 50_000)
    large = {**BASE["engine"], "options": {"table": "x" * 50_000}}
    answer = tamis("init", write(run=run_name, engine=large))
    assert answer.code == 2 and "keep large options in a file, and name that [too_large]" in answer.err
    assert run_name not in tamis("runs").out.split()


def test_a_shell_completes_the_names_of_runs_and_their_domains(
    created: Connection, services: Services, home: Path
) -> None:
    assert completed(f"tamis trace {created.run[:-1]}", home, TAMIS_BOOTSTRAP=services.bootstrap) == [created.run]
    words = f"tamis tail {created.run} --domain "
    assert completed(words, home, TAMIS_BOOTSTRAP=services.bootstrap) == ["a"]


def test_a_name_in_use_is_refused(tamis: Tamis, created: Connection) -> None:
    answer = tamis("init", "run.yaml")
    assert answer.code == 2
    assert answer.err == (
        f"error: run {created.run}: the name is in use (9 topics, tamis.{created.run}.dead-letters …); choose another, "
        f"or remove it with `tamis delete {created.run}`\n"
    )


def test_a_run_that_is_there_is_left_as_it_is_if_asked(
    tamis: Tamis, write: Callable[..., Path], created: Connection, run_name: str
) -> None:
    answer = tamis("init", "run.yaml", "--if-missing")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"run {run_name} is there, with this configuration, ")
    assert len(list(read_topic(created, Topic.LEDGER))) == 1
    answer = tamis("init", write(run=run_name, steps=4, seed=8), "--if-missing")
    assert answer.code == 2
    assert f"run {run_name} was started with other values of seed, steps, and goes on under those alone" in answer.err
    answer = tamis("init", write(run=run_name, filters={"default": [{"type": "no_filter"}]}), "--if-missing")
    assert answer.code == 2 and "other values of domains" in answer.err
    assert f"in a new one: `tamis fork {run_name} --as {run_name}-2 --config FILE`" in answer.err
    assert tamis("init", write(run=f"{run_name}b"), "--if-missing").out.startswith(f"run {run_name}b is created")


def test_a_bad_line_in_a_prompt_file_is_named_by_its_number(
    tamis: Tamis, write: Callable[..., Path], home: Path, run_name: str
) -> None:
    good = '{"id": "%d", "prompt": "2+3?", "target": "5", "domain": "a"}\n'
    prompts = home / "prompts.jsonl"
    prompts.write_text(good % 1 + good % 2 + '{"id": "3", "prompt": }\n')
    path = write(run=run_name, prompts={"factory": PROMPTS, "options": {"path": str(prompts)}})
    answer = tamis("init", path)
    assert answer.code == 2
    assert f"{prompts}:3: " in answer.err
    assert run_name not in tamis("runs").out.split()
    prompts.write_text(good % 1 + '{"id": "1", "prompt": "again", "target": "5", "domain": "a"}\n')
    assert f"{prompts}:2: id: '1' is that of line 1 too" in tamis("init", path).err


def test_a_missing_prompt_file_is_named(tamis: Tamis, write: Callable[..., Path], run_name: str) -> None:
    answer = tamis("init", write(run=run_name, prompts={"factory": PROMPTS, "options": {"path": "nowhere.jsonl"}}))
    assert answer.code == 2
    assert "nowhere.jsonl" in answer.err


def test_a_prompt_of_an_evaluation_that_is_too_long_is_named_and_nothing_is_made(
    tamis: Tamis, write: Callable[..., Path], run_name: str
) -> None:
    exam = {"factory": "tests.e2e.plugins:Numbers", "options": {"sizes": {"exam": 2}}}
    answer = tamis("init", write(run=run_name, eval_prompts=exam, max_prompt_tokens=2))
    assert answer.code == 2
    assert (
        "eval_prompts: prompt exam-0-0 of domain exam is too long: 3 tokens, more than max_prompt_tokens 2; "
        "shorten it, or raise the limit [eval_prompt_too_long]"
    ) in answer.err
    assert run_name not in tamis("runs").out.split()


def test_a_plugin_of_ones_own_is_found_in_the_working_folder(
    tamis: Tamis, write: Callable[..., Path], home: Path, run_name: str
) -> None:
    (home / f"mine_{run_name}.py").write_text("from tests.e2e.plugins import Numbers\n")
    path = write(run=run_name, prompts={"factory": f"mine_{run_name}:Numbers"})
    assert tamis("init", path).code == 0
    answer = tamis("init", write(run=f"{run_name}x", prompts={"factory": f"mine_{run_name}x:Numbers"}))
    assert answer.code == 2
    assert f"mine_{run_name}x" in answer.err and "[module_not_found]" in answer.err


@pytest.mark.parametrize("words", [("status",), ("audit",), ("tail",), ("trace", "1@0"), ("stop",), ("recover",)])
def test_a_run_that_does_not_exist_is_said_with_how_to_list_them(tamis: Tamis, words: tuple[str, ...]) -> None:
    answer = tamis(words[0], "nosuch", *words[1:])
    assert answer.code == 2
    assert answer.err == "error: there is no run nosuch; `tamis runs` lists those that there are\n"


@pytest.mark.parametrize("command", ["status", "audit", "stop"])
def test_a_topic_with_another_number_of_partitions_is_refused(tamis: Tamis, created: Connection, command: str) -> None:
    name = topic_name(created.run, Topic.ROLLOUTS)
    admin = admin_client(created)
    admin.create_partitions([NewPartitions(name, 3)])[name].result(30)
    assert wait_until(lambda: len(admin.list_topics(name, 10).topics[name].partitions) == 3, within_s=30)
    answer = tamis(command, created.run)
    assert answer.code == 2
    assert answer.err.startswith(f"error: topic {name} has 3 partitions, expected 2: its records are no longer where")


def test_a_run_that_has_just_been_made_has_a_status_and_a_clean_audit(tamis: Tamis, created: Connection) -> None:
    status = tamis("status", created.run)
    assert status.code == 0
    assert "waiting for the trainer" in status.out and "0 of 3" in status.out
    found = json.loads(tamis("status", created.run, "--json").out)
    assert (found["run"], found["groups_opened"], found["payload_keys"]) == (created.run, 0, 0)
    assert (found["step"], found["steps"]) == (0, 3)
    assert found["problems"] == []
    assert {row["stage"] for row in found["stages"]} >= {"scheduler", "assembler", "trainer"}
    audit = tamis("audit", created.run)
    assert (audit.code, audit.out.splitlines()[-1]) == (0, "clean")
    assert json.loads(tamis("audit", created.run, "--json").out)["clean"] is True


def test_tail_prints_records_and_trace_refuses_an_unknown_group(tamis: Tamis, created: Connection) -> None:
    lines = tamis("tail", created.run, "--json").out.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["RunStarted"]
    told = tamis("tail", created.run).out
    assert re.match(
        rf"\d\d:\d\d:\d\d\.\d{{3}}  ledger/0/0  +RunStarted  run={created.run} config=.+ prompt_sizes\.a=", told
    ), told
    answer = tamis("tail", created.run, "legder")
    assert (answer.code, answer.err.startswith("error: there is no topic 'legder'; expected one of: prompts")) == (
        2,
        True,
    )
    answer = tamis("tail", created.run, "--reason", "zerostd")
    assert answer.code == 2 and answer.err.startswith("error: there is no reason 'zerostd'; did you mean 'zero_std'")
    assert tamis("tail", created.run, "--reason", "payload_missing").code == 0
    answer = tamis("trace", created.run, "1@0")
    assert answer.code == 2
    assert answer.err == (
        f"error: run {created.run} has no group 1@0; tamis tail {created.run} --event GroupOpened --last 5 names some\n"
    )


@pytest.mark.parametrize("words", [("trace", "5@9"), ("tail", "--group", "5@9")], ids=lambda words: words[0])
def test_a_group_of_a_partition_that_the_run_has_not_is_refused(
    tamis: Tamis, created: Connection, words: tuple[str, ...]
) -> None:
    answer = tamis(words[0], created.run, *words[1:])
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"error: run {created.run} has no group 5@9: it has partitions 0 to 1\n"


def test_a_topic_that_is_gone_is_named(tamis: Tamis, created: Connection) -> None:
    name = topic_name(created.run, Topic.LEDGER)
    admin = admin_client(created)
    admin.delete_topics([name])[name].result(30)
    answer = tamis("tail", created.run)
    assert answer.code == 2 and f"topic {name} is gone, though run {created.run} has others" in answer.err


def test_recover_says_that_nothing_is_missing(tamis: Tamis, created: Connection) -> None:
    said = tamis("recover", created.run).out
    assert said == f"nothing to rebuild: every stage of run {created.run} has its committed offsets\n"


def test_stop_is_a_fact_in_the_ledger(tamis: Tamis, created: Connection) -> None:
    assert tamis("stop", created.run).code == 0
    assert isinstance(list(read_topic(created, Topic.LEDGER))[-1].event(), e.StopRequested)


def test_the_live_view_says_what_is_waited_for_and_ctrl_c_ends_it(
    created: Connection, services: Services, home: Path
) -> None:
    address = {"TAMIS_BOOTSTRAP": services.bootstrap, "TAMIS_REDIS_URL": services.redis_url, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pipeline.cli", "top", created.run]
    with subprocess.Popen(command, env=os.environ | address, cwd=home, stdout=subprocess.PIPE, text=True) as view:
        assert view.stdout is not None
        first = view.stdout.readline()
        view.send_signal(signal.SIGINT)
        assert view.wait(30) == 0
    assert f"no scheduler is at work: tamis consume scheduler --run {created.run}" in first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--reason", "zerostd"), "there is no reason 'zerostd'; did you mean 'zero_std'?"),
        (("--event", "GroupRejectd"), "there is no event 'GroupRejectd'; did you mean 'GroupRejected'?"),
        (("--domain", "nosuch"), "there is no domain 'nosuch'"),
        (("--group", "g7"), "'g7' is not a group's id; expected number@partition"),
    ],
)
def test_a_word_that_no_record_can_have_is_refused(
    tamis: Tamis, created: Connection, words: tuple[str, ...], said: str
) -> None:
    answer = tamis("tail", created.run, *words)
    assert answer.code == 2 and said in answer.err


def test_records_are_found_by_the_domain_of_their_group_and_members_are_decoded(
    tamis: Tamis, created: Connection
) -> None:
    opened = replace(full(e.GroupOpened), group_id="5@1", prompt=e.PromptRef("p", "a", 0, 0))
    encoded = Members().encode((replace(full(e.Member), reward=0.25),))
    batch = replace(full(e.BatchFormed), groups=(replace(full(e.BatchGroup), members=encoded),))
    response, foreign = (replace(full(e.ResponseGenerated), group_id=group) for group in ("5@1", "6@1"))
    write_facts(created, "test", [
        Output(Topic.LEDGER, 0, opened), Output(Topic.LEDGER, 0, batch), Output(Topic.RESPONSES, 1, response),
        Output(Topic.RESPONSES, 1, foreign),
    ])  # fmt: skip
    found = tamis("tail", created.run, "responses", "--domain", "a", "--json").out.splitlines()
    assert [json.loads(line)["group_id"] for line in found] == ["5@1"]
    shown = json.loads(tamis("tail", created.run, "--event", "BatchFormed", "--json").out)
    assert shown["groups"][0]["members"][0]["reward"] == 0.25


def test_a_report_of_one_run_and_of_several(tamis: Tamis, write: Callable[..., Path], created: Connection) -> None:
    other = f"{created.run}b"
    assert tamis("init", write(run=other)).code == 0
    answer = tamis("report", created.run)
    assert (answer.code, answer.out) == (0, f"report-{created.run}.html\n")
    assert "clean" in Path(f"report-{created.run}.html").read_text()
    told = json.loads(tamis("report", created.run, other, "--out", "both.html", "--json").out)
    assert told["runs"] == [created.run, other]
    assert "At equal generated tokens" in Path(told["report"]).read_text()
    missing = tamis("report", created.run, "nosuch")
    assert missing.code == 2 and "tamis runs" in missing.err
