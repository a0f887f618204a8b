"""`tamis what-if` over a run that lies in Kafka."""

from __future__ import annotations

import json
import re
import secrets
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.config import canonical, load, parse
from pipeline.domain import events as e
from pipeline.local import Services
from pipeline.log.admin import create_run
from pipeline.log.client import Connection, fact_producer
from pipeline.log.topics import topic_name
from tests.e2e.harness import BASE
from tests.history.drive import Drive

from .conftest import ROOT, Tamis

pytestmark = pytest.mark.contract
SORT = {"quota": 4, "shadow_filters": [{"type": "band", "low": 0.5, "high": 1}]}


@pytest.fixture(scope="module")
def stored(services: Services) -> tuple[str, Drive]:
    """A finished run with a shadow filter, in topics of its own."""
    name = f"t{secrets.token_hex(4)}"
    config = canonical(parse({**BASE, "run": name, "group_size": 3, "redundancy": 1, "domains": {"sort": SORT}}))
    drive = Drive(json.loads(config), stride=1)
    drive.run()
    connection = Connection(services.bootstrap, name, "here")
    create_run(connection, drive.rules)
    producer = fact_producer(connection)
    for r in drive.records:
        topic = topic_name(name, r.topic)
        producer.produce(topic, r.value, r.key, r.partition, timestamp=r.timestamp_ms, headers=list(r.headers))
    assert producer.flush(30) == 0
    return name, drive


def test_other_filters_are_compared_with_what_was_recorded(
    tamis: Tamis, stored: tuple[str, Drive], write: Callable[..., Path]
) -> None:
    run, drive = stored
    kinds = [type(r.event()) for r in drive.records]
    accepted, rejected = kinds.count(e.GroupAccepted), kinds.count(e.GroupRejected)
    path = write("filters: {default: [{type: no_filter}]}", name="other.yaml")
    told = json.loads(tamis("what-if", run, "--filters", path, "--json").out)
    (domain,) = told["domains"]
    assert (told["judged"], told["agree"], told["differ"]) == (accepted + rejected, accepted, rejected)
    assert (domain["accepted"], domain["would_accept"]) == (accepted, accepted + rejected)
    assert domain["tokens_per_accepted"] > domain["would_be_tokens_per_accepted"] > 0
    assert told["exact"] is False and len(told["estimates"]) == 3
    shown = tamis("what-if", run, "--filters", path)
    assert (shown.code, shown.err) == (0, "")
    for text in (f"{rejected} differ", "zero_std/all_zero", "Acceptance, cost and batches are an estimate: from batch"):
        assert text in shown.out


def test_without_a_file_it_tells_what_the_shadows_said(tamis: Tamis, stored: tuple[str, Drive]) -> None:
    (shadow,) = json.loads(tamis("what-if", stored[0], "--json").out)["shadows"]
    assert shadow["shadow"] == "band" and shadow["rejects"]["band"] == shadow["asked"] - shadow["accepts"] > 0
    assert "of accepted" in tamis("what-if", stored[0]).out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("filters:\n  defualt: [{type: no_filter}]", "other.yaml:2: filters.defualt: no such domain"),
        ("filters: {default: [{type: custom, factory: 'nowhere:Judge'}]}", "there is no module 'nowhere'"),
        ("filters: {default: [{type: custom, factory: 'json:Judge'}]}", "json has no 'Judge'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tamis: Tamis, stored: tuple[str, Drive], write: Callable[..., Path], text: str, says: str
) -> None:
    answer = tamis("what-if", stored[0], "--filters", write(text, name="other.yaml"))
    assert answer.code == 2 and says in answer.err


def test_a_custom_filter_in_the_working_folder_is_asked(
    tamis: Tamis, stored: tuple[str, Drive], write: Callable[..., Path], home: Path
) -> None:
    name = f"mine_{stored[0]}"
    (home / f"{name}.py").write_text("def none(seed, options):\n    return lambda members: False\n")
    path = write(f"filters: {{default: [{{type: custom, factory: '{name}:none'}}]}}", name="other.yaml")
    (domain,) = json.loads(tamis("what-if", stored[0], "--filters", path, "--json").out)["domains"]
    assert (domain["would_accept"], domain["would_be_tokens_per_accepted"]) == (0, None)


def test_the_status_of_a_run_has_its_domains_and_shadows(tamis: Tamis, stored: tuple[str, Drive]) -> None:
    status = json.loads(tamis("status", stored[0], "--json").out)
    (domain,), (shadow,) = status["domains"], status["shadows"]
    assert (domain["domain"], domain["quota"], domain["lead"], domain["open"]) == ("sort", 4, 8, 0)
    assert domain["judged"] == domain["accepted"] + sum(row["groups"] for row in domain["rejected"])
    assert (shadow["shadow"], shadow["asked"]) == ("band", domain["judged"])
    shown = tamis("status", stored[0]).out
    assert "untrained" in shown and "information" in shown and "band" in shown


def test_the_commands_that_estimate_retention_are_those_of_the_docs(
    tamis: Tamis, stored: tuple[str, Drive], write: Callable[..., Path]
) -> None:
    text = (ROOT / "docs" / "filters.md").read_text()
    commands = [
        shlex.split(line.partition("#")[0]) for line in re.findall(r"^ +(tamis (?:init|what-if) .*)$", text, re.M)
    ]
    init, what_if = commands
    path = write("filters: {default: [{type: mean_filter, threshold_down: 0.4}]}", name=what_if[-1])
    write(run="large", filters={"default": [{"type": "zero_std"}]})
    assert init[2] == "run.yaml"
    sample = load(init[2], [words for before, words in pairwise(init) if before == "--set"])
    assert (sample.run, sample.steps, sample.evaluation.every) == ("sample", 4, 0)
    assert [link.type for link in sample.chain("a")] == ["no_filter"]
    assert what_if[1:4] == ["what-if", "sample", "--filters"]
    assert tamis("what-if", stored[0], "--filters", path).code == 0


def test_a_run_or_a_file_that_is_not_there_is_said_so(tamis: Tamis, stored: tuple[str, Drive]) -> None:
    answer = tamis("what-if", "nosuch")
    assert answer.code == 2 and "tamis runs" in answer.err
    assert tamis("what-if", stored[0], "--filters", "nowhere.yaml").code == 2
