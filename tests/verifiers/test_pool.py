"""A pool of processes: hung ones are killed and replaced, and none outlives whoever asked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.verifiers.pool import Pool, TimedOut
from pipeline.verifiers.template import Died

ROOT = Path(__file__).parents[2]
MODULE = "tests.verifiers.hanging_child"


def within(seconds: float, what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def gone(pids: list[int]) -> bool:
    return not any(lives(pid) for pid in pids)


def lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TAMIS_REDIS_URL", "redis://:secret@there")
    made = Pool(MODULE, 2)
    yield made
    made.close()


def pids(pool: Pool) -> list[int]:
    return [worker.pid for worker in pool.workers if worker.pid is not None]


def test_requests_are_answered_each_by_one_process_at_a_time(pool: Pool):
    async def ask() -> list[Any]:
        return await asyncio.gather(*(pool.ask({"do": text}, 20) for text in ("a", "b\u2028", "\ud83d", "x" * 300_000)))

    answers = asyncio.run(ask())
    assert [a["back"] for a in answers] == ["a", "b\u2028", "\ud83d", "x" * 300_000]
    assert {a["pid"] for a in answers} == set(pids(pool)) and len(pids(pool)) == 2
    assert {a["secret"] for a in answers} == {None}  # a verifier's processes get none of Tamis' settings


def test_a_process_that_hangs_is_killed_and_replaced(pool: Pool):
    async def ask() -> tuple[list[Any], Any, list[int]]:
        await asyncio.gather(*(pool.ask({"do": "a"}, 20) for _ in range(2)))
        before = pids(pool)
        hung = await asyncio.gather(*(pool.ask({"do": "hang"}, 0.3) for _ in range(3)), return_exceptions=True)
        return hung, await pool.ask({"do": "still there"}, 20), before

    hung, after, before = asyncio.run(ask())
    assert [type(error) for error in hung] == [TimedOut] * 3
    assert after["back"] == "still there"
    assert within(5, lambda: len(pids(pool)) == 2) and not set(before) & set(pids(pool)) and gone(before)


def test_a_process_that_ends_fails_its_request_alone(pool: Pool):
    async def ask() -> list[Any]:
        requests = [pool.ask({"do": what}, 20) for what in ("end", "raise", "a", "b")]
        return await asyncio.gather(*requests, return_exceptions=True)

    ended, raised, *rest = asyncio.run(ask())
    assert isinstance(ended, Died) and raised == {"error": "ValueError: seven"}
    assert [answer["back"] for answer in rest] == ["a", "b"]


def test_processes_killed_from_outside_are_replaced_at_the_next_request(pool: Pool):
    async def ask() -> tuple[list[int], list[Any]]:
        await pool.ask({"do": "a"}, 20)
        template = psutil.Process(pids(pool)[0]).ppid()
        os.kill(template, signal.SIGKILL)
        killed = [template, *pids(pool)]
        assert await asyncio.to_thread(within, 5, lambda: gone(killed))
        again = await asyncio.gather(*(pool.ask({"do": "b"}, 20) for _ in range(6)), return_exceptions=True)
        return killed, again

    killed, again = asyncio.run(ask())
    answered = [answer for answer in again if not isinstance(answer, Died)]
    assert len(answered) >= 4 and not {a["pid"] for a in answered} & set(killed)


def test_a_cancelled_request_frees_its_worker(pool: Pool):
    async def ask() -> Any:
        hanging = [asyncio.ensure_future(pool.ask({"do": "hang"}, 600)) for _ in range(2)]
        while len(pids(pool)) < 2:
            await asyncio.sleep(0.01)
        for call in hanging:
            call.cancel()
        return await asyncio.wait_for(pool.ask({"do": "a"}, 20), 20)

    assert asyncio.run(ask())["back"] == "a"


def test_closing_ends_a_hanging_process_too(pool: Pool):
    async def ask() -> list[int]:
        call = asyncio.ensure_future(pool.ask({"do": "hang"}, 600))
        while not pids(pool):
            await asyncio.sleep(0.01)
        found = pids(pool)
        found.append(psutil.Process(found[0]).ppid())
        pool.close()
        with pytest.raises(Died):
            await call
        return found

    assert gone(asyncio.run(ask()))


ORPHANING = """
import asyncio
from pipeline.verifiers.pool import Pool

async def main():
    pool = Pool("tests.verifiers.hanging_child", 2)
    calls = [asyncio.ensure_future(pool.ask({"do": "hang"}, 600)) for _ in range(2)]
    while not all(worker.pid for worker in pool.workers):
        await asyncio.sleep(0.01)
    print(*(worker.pid for worker in pool.workers), flush=True)
    await asyncio.gather(*calls)

asyncio.run(main())
"""


@pytest.mark.faults
def test_no_process_outlives_a_killed_parent():
    with subprocess.Popen([sys.executable, "-c", ORPHANING], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        found = [int(word) for word in parent.stdout.readline().split()]
        found.append(psutil.Process(found[0]).ppid())
        assert not gone(found[:1])
        parent.kill()
    assert within(10, lambda: gone(found))
