"""`tamis top`: a run as it goes on."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pipeline.cli.common import Bootstrap, RedisUrl, Run, out, say, settings_for

if TYPE_CHECKING:
    from pipeline.domain.rules import Rules
    from pipeline.history.watch import Watch
    from pipeline.log.members import Attendance

EVERY_S: Final = 0.25


def top(
    run: Run,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, every few seconds.")] = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Follow a run live: steps, reward, accuracy, groups by reason, staleness, payloads, and what waits for what.

    It ends when the run is finished and its last payload dropped. Ctrl-C ends the view; the run goes on. Without a
    terminal it prints a line every few seconds. An outage of Kafka or Redis is shown, and waited for.
    """
    from pipeline.history.watch import Watch, read_view
    from pipeline.log.members import Attendance
    from pipeline.runs import connection_of, open_run, store_of

    settings = settings_for(run, bootstrap, redis_url)
    connection = connection_of(settings, run)
    rules = open_run(connection).rules
    store = store_of(settings, run, rules.max_payload_bytes)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    view, seen = read_view(connection)  # what has happened is not shown as if it happened now
    watch = Watch(connection, store, view=view, start_at=seen)
    present = Attendance(connection)
    shown = Lines() if as_json else Picture()
    watch.start()
    try:
        while not watch.view.drained:
            if watch.errors:
                raise watch.errors[0]
            shown.update(watch, present, rules)
            time.sleep(EVERY_S)
    except KeyboardInterrupt:
        return
    finally:
        shown.close()
        present.stop()
        watch.stop()
    shown.end(watch)


class Picture:
    """The live screen, or a line every few seconds where there is no terminal."""

    def __init__(self) -> None:
        from pipeline.demo.live import Screen

        self._screen, self._began = Screen(out), time.monotonic()

    def update(self, watch: Watch, present: Attendance, rules: Rules) -> None:
        """Show how things stand now."""
        from pipeline.demo.layout import Standing

        now = time.monotonic()
        with watch.lock:
            what = next(iter(_waiting(watch, present, rules)), "")
            problem = " · ".join(_problems(watch, present))
            standing = Standing((), now - self._began, time.time_ns() // 1_000_000, what, problem)
            self._screen.update(watch.view, standing, now)

    def close(self) -> None:
        """Give the terminal back."""
        self._screen.close()

    def end(self, watch: Watch) -> None:
        """How it ended."""
        view = watch.view
        say(
            f"{view.outcome} after {view.step} steps ({view.closing or 'nothing is left'}); see tamis status {view.run}"
        )


class Lines:
    """JSON, for programs."""

    def __init__(self) -> None:
        self._next = 0.0

    def update(self, watch: Watch, present: Attendance, rules: Rules) -> None:
        """A line, if it is time for one."""
        from pipeline.demo.live import LINE_EVERY_S

        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_S
            with watch.lock:
                waiting = _waiting(watch, present, rules)
            self._print(watch, waiting, _problems(watch, present))

    def close(self) -> None:
        """Nothing is held."""

    def end(self, watch: Watch) -> None:
        """How it ended."""
        self._print(watch, [], [])

    def _print(self, watch: Watch, waiting: list[str], problems: list[str]) -> None:
        now_ms = time.time_ns() // 1_000_000
        with watch.lock:
            view, redis, last = watch.view, watch.view.redis.last, watch.view.progress.last_evaluation
            found = {
                "at_ms": now_ms,
                "run": view.run,
                "phase": str(view.phase),
                "outcome": str(view.outcome) if view.outcome else None,
                "step": view.step,
                "steps": view.steps,
                "accuracy": last.accuracy if last else None,
                "groups_open": view.groups.open_train + view.groups.open_eval,
                "accepted": view.groups.accepted,
                "rejected": dict(view.groups.rejected),
                "groups_per_s": round(view.groups_per_s(now_ms), 3),
                "payload_keys": redis.keys if redis else None,
                "waiting": waiting,
                "problems": problems,
            }
        print(json.dumps(found), flush=True)


def _waiting(watch: Watch, present: Attendance, rules: Rules) -> list[str]:
    """What waits for what; nothing is said of it while it isn't known who is at work."""
    from pipeline.history.waiting import waits

    return [] if present.problem else list(waits(watch.view, rules, present.members))


def _problems(watch: Watch, present: Attendance) -> list[str]:
    return [problem for problem in (present.problem, watch.redis_problem) if problem]
