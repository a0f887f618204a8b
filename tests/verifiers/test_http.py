"""Verifiers over HTTP, against a real server: retries, refusals, time limits, typed answers, secrets."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pipeline.config import ConfigError, canonical, parse, parse_canonical, resolve_budget
from pipeline.plugins import build
from pipeline.sdk import Misconfigured, Score, ScoreRequest, Verifier
from pipeline.verifiers.code import CodeTests, code_of
from pipeline.verifiers.llm_judge import LlmJudge

KEY = "sk-very-secret"


class Service:
    """Answers with what is next in `answers`, (status, body), the last again and again; a number is seconds to wait."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[tuple[dict[str, Any], str | None]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append((body, self.headers["Authorization"]))
                found = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
                if isinstance(found, float):
                    service.released.wait(found)
                    return
                status, said = found
                sent = (said if isinstance(said, str) else json.dumps(said)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/judge"

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    made = Service()
    yield made
    made.stop()


def judged(verifier: Any, texts: list[str]) -> list[Score]:
    async def ask() -> list[Score]:
        try:
            requests = [ScoreRequest(f"r{n}", text, "assert f(1) == 2", {}) for n, text in enumerate(texts)]
            return list(await verifier.score(requests))
        finally:
            await verifier.close()

    return asyncio.run(ask())


def code(service: Service, **options: Any) -> CodeTests:
    return CodeTests(0, {"url": service.url, "retries_s": [0.01, 0.02, 0.04], "timeout_s": 5, **options})


def test_the_share_of_tests_that_pass_is_the_score(service: Service):
    service.answers = [(200, {"passed": 3, "total": 4, "more": "ignored"})]
    [score] = judged(code(service, key_env="JUDGE_KEY"), ["So:\n```python\nx = 1\n```\nor\n```\nx = 2\n```\ndone"])
    assert (score.value, score.components) == (0.75, {"passed": 3.0, "total": 4.0})
    assert service.asked == [({"id": "r0", "code": "x = 2", "tests": "assert f(1) == 2"}, f"Bearer {KEY}")]
    [score] = judged(code(service, all_or_nothing=True), ["x = 1"])
    assert score.value == 0.0 and code_of("x = 1") == "x = 1"


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_that_is_down_is_tried_again_three_times(service: Service, status: int):
    service.answers = [(status, "down")] * 3 + [(200, {"passed": 1, "total": 1})]
    [score] = judged(code(service), ["x"])
    assert score.value == 1.0 and len(service.asked) == 4
    service.answers, service.asked = [(status, "down")], []
    [score] = judged(code(service), ["x"])
    assert (score.value, score.outcome, len(service.asked)) == (None, "unavailable", 4)
    assert score.detail == f"HTTP {status}: 'down', after 4 tries"


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(400, "rejected"), (409, "rejected"), (422, "rejected"), (429, "rejected"), (500, "unavailable")],
)
def test_other_refusals_are_final_and_no_verdict(service: Service, status: int, outcome: str):
    service.answers = [(status, f"no, {KEY} is not welcome")]
    [score] = judged(code(service, key_env="JUDGE_KEY"), ["x"])
    assert (score.value, score.outcome, len(service.asked)) == (None, outcome, 1)
    assert score.detail == f"HTTP {status}: 'no, *** is not welcome'"


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (401, "who are you?", "correct its url, or the key"),
        (403, "", "correct its url, or the key"),
        (404, "", "correct its url, or the key"),
        (413, "", "more than its context holds"),
        (400, {"error": {"code": "context_length_exceeded"}}, "more than its context holds"),
    ],
)
def test_a_wrong_key_or_address_and_an_overflow_are_nothing_to_go_on_with(
    service: Service, status: int, said: Any, why: str
):
    service.answers = [(status, said)]
    with pytest.raises(Misconfigured, match=why):
        judged(code(service), ["x"])
    assert len(service.asked) == 1


def test_no_answer_in_time_is_a_timeout_and_not_tried_again(service: Service):
    service.answers = [30.0]
    started = time.monotonic()
    [score] = judged(code(service, timeout_s=0.2), ["x"])
    assert (score.value, score.outcome, score.detail) == (None, "timeout", "no answer within 0.2 s")
    assert len(service.asked) == 1 and time.monotonic() - started < 10


def test_a_service_that_is_not_there_is_tried_again_and_then_no_verdict(service: Service):
    gone = Service()
    gone.stop()
    [score] = judged(code(gone), ["x"])
    assert (score.value, score.outcome) == (None, "unavailable")
    assert "ConnectError" in (score.detail or "") and "after 4 tries" in (score.detail or "")


@pytest.mark.parametrize(
    "said",
    ["passed", [], {}, {"passed": 1}, {"passed": "1", "total": 2}, {"passed": 3, "total": 2},
     {"passed": 1.5, "total": 2},
     {"passed": 0, "total": 0}, '{"passed": NaN, "total": 1}'],
)  # fmt: skip
def test_an_answer_of_another_form_is_no_verdict(service: Service, said: Any):
    service.answers = [(200, said)]
    [score] = judged(code(service), ["x"])
    assert (score.value, score.outcome) == (None, "bad_answer")


def test_scores_belong_to_their_requests(service: Service):
    service.answers = [(200, {"passed": 1, "total": 1}), (422, ""), (200, {"passed": 0, "total": 1})]
    scores = judged(code(service, concurrency=1), ["a", "b", "c"])
    by_code = {body["code"]: n for n, (body, _) in enumerate(service.asked)}
    expected = [1.0, None, 0.0]
    assert [score.value for score in scores] == [expected[by_code[text]] for text in "abc"]


def reply(content: Any, finish: str = "stop") -> tuple[int, Any]:
    return 200, {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("answer", "value", "why"),
    [
        (reply("Good.\nScore: 7"), 0.7, None),
        (reply("score: 2, no, Score: 10"), 1.0, None),
        (reply("Good."), None, "has no score"),
        (reply("Score: 11"), None, "its score is 11"),
        (reply("Score: 7", "length"), None, "cut off"),
        (reply(None), None, "choices.0.message.content"),
        ((200, {"choices": []}), None, "choices"),
    ],
)
def test_a_judges_reply_is_read(service: Service, answer: Any, value: float | None, why: str | None):
    service.answers = [answer]
    judge = LlmJudge(0, {"url": service.url, "model": "m", "retries_s": [], "key_env": "JUDGE_KEY"})
    [score] = judged(judge, ["it is {target} and {response}"])
    assert score.value == value and (why is None or why in (score.detail or ""))
    question = service.asked[0][0]["messages"][0]["content"]
    assert question.endswith("assert f(1) == 2\n\nAnswer:\nit is {target} and {response}")


def test_what_is_explicit_beats_the_environment_and_secrets_never_show(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TAMIS_CODE_URL", "http://there:1/x")
    with pytest.raises(ConfigError, match="the environment variable NONE, which key_env names, is not set"):
        build("pipeline.verifiers.code:CodeTests", 0, {"key_env": "NONE"}, "verifiers.code.factory", Verifier)
    with pytest.raises(ConfigError, match="url holds a user or a password") as error:
        build("pipeline.verifiers.code:CodeTests", 0, {"url": f"http://me:{KEY}@here/"}, "v", Verifier)
    assert KEY not in str(error.value)
    with pytest.raises(ConfigError, match="url is not set to an address"):
        build("pipeline.verifiers.code:CodeTests", 0, {"url": "here"}, "v", Verifier)
    build("pipeline.verifiers.code:CodeTests", 0, {}, "v", Verifier)
    with pytest.raises(ConfigError, match="did you mean 'key_env'"):
        build("pipeline.verifiers.code:CodeTests", 0, {"key": KEY}, "v", Verifier)


def test_a_policy_that_is_given_beats_the_environment_which_only_names_the_default(monkeypatch: pytest.MonkeyPatch):
    plugin = {"factory": "m:X"}
    tree = {
        "run": "r",
        "steps": 1,
        "prompts": plugin,
        "engine": plugin,
        "learner": plugin,
        "domains": {"d": {"quota": 1}},
    }
    tree |= {"verifiers": {"a": plugin, "b": {**plugin, "on_failure": "drop_response"}}}
    monkeypatch.setenv("TAMIS_ON_FAILURE", "raise")
    config = parse(tree)
    assert (config.verifiers["a"].on_failure, config.verifiers["b"].on_failure) == ("raise", "drop_response")
    recorded = canonical(resolve_budget(config, 2**36))
    monkeypatch.setenv("TAMIS_ON_FAILURE", "zero")
    assert parse_canonical(recorded).verifiers == config.verifiers  # a run keeps what it was created with
    monkeypatch.setenv("TAMIS_ON_FAILURE", "ignore")
    with pytest.raises(ConfigError, match="'ignore'; expected 'zero', 'drop_response' or 'raise'"):
        parse(tree)
