"""The last numbers of a run are still fetched, by whoever fetched those before them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

import httpx
import pytest

from pipeline.config.errors import ConfigError
from pipeline.history.view import RunView
from pipeline.local.files import free_port
from pipeline.metrics.run import ViewCollector, registry
from pipeline.metrics.server import PORT, last_word, metrics_server


def never() -> bool:
    return False


def test_who_has_asked_gets_the_last_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORT, str(port := free_port()))
    view, lock = RunView(), Lock()
    numbers = ViewCollector(view, lock)
    server = metrics_server(registry(numbers))
    assert server is not None
    url = f"http://127.0.0.1:{port}/metrics"
    try:
        assert "tamis_step 0.0" in httpx.get(url).text
        view.progress.step = 7
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(last_word, lambda: numbers.asked, never, 30)
            while not waiting.done():
                assert "tamis_step 7.0" in httpx.get(url).text
            assert waiting.result()
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("port", ["99999", "-1", "abc"])
def test_a_port_that_there_is_not_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv(PORT, port)
    with pytest.raises(ConfigError, match=f"{PORT}.* can't be listened at .*; name another port"):
        metrics_server(registry(ViewCollector(RunView(), Lock())))


def test_nobody_waits_for_who_never_asked_or_stays_away() -> None:
    assert not last_word(lambda: 0, never, 1e9)
    assert not last_word(lambda: 3, never, 0.1)


def test_a_signal_ends_the_wait() -> None:
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(last_word, lambda: 3, stop.is_set, 1e9)
        stop.set()
        assert not waiting.result(30)
