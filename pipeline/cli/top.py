"""`tamis top`: a run as it goes on."""

from __future__ import annotations

import signal
import time
from typing import Annotated, Final

import typer

from pipeline.cli.common import Bootstrap, RedisUrl, Run, out, settings_for

EVERY_S: Final = 0.25
ASK_EVERY_S: Final = 2.0
NO_MEMBERS_S: Final = 10.0


def top(
    run: Run,
    until_finished: Annotated[
        bool, typer.Option("--until-finished", help="End when the run is finished, not by Ctrl-C alone.")
    ] = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Follow a run live: steps, reward, accuracy, groups by reason, staleness, payloads, and what waits for what.

    Ctrl-C ends the view; the run goes on. Without a terminal it prints a line every few seconds.
    """
    from pipeline.demo.layout import Standing
    from pipeline.demo.live import Screen
    from pipeline.history.waiting import waits
    from pipeline.history.watch import Watch
    from pipeline.log.members import members_of
    from pipeline.runs import connection_of, open_run, store_of

    settings = settings_for(run, bootstrap, redis_url)
    connection = connection_of(settings, run)
    rules = open_run(connection).rules
    watch = Watch(connection, store_of(settings, run, rules.max_payload_bytes))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    screen, began, next_ask, what = Screen(out), time.monotonic(), 0.0, ""
    watch.start()
    try:
        while not (until_finished and watch.view.drained):
            if watch.errors:
                raise watch.errors[0]
            now = time.monotonic()
            if now >= next_ask:
                next_ask = now + ASK_EVERY_S
                members = members_of(connection)
                with watch.lock:
                    what = next(waits(watch.view, rules, members), "")
            with watch.lock:
                standing = Standing((), now - began, time.time_ns() // 1_000_000, what, watch.redis_problem or "")
                screen.update(watch.view, standing, now)
            time.sleep(EVERY_S)
    except KeyboardInterrupt:
        pass
    finally:
        screen.close()
        watch.stop()
    if outcome := watch.view.outcome:
        screen.say(f"{outcome} after {watch.view.step} steps; see tamis status {run}")
