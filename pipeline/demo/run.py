"""The demo from beginning to end: services, run, processes, watching, audit, report."""

from __future__ import annotations

import fcntl
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Final

from rich.console import Console

from pipeline import local
from pipeline.config import ProcessSettings, load_settings
from pipeline.demo.errors import DemoFailed
from pipeline.demo.interrupt import Interrupted, Stopping, supervise
from pipeline.demo.layout import Standing
from pipeline.demo.live import Screen
from pipeline.demo.processes import Processes, Role
from pipeline.demo.recipe import note_of, recipe
from pipeline.demo.summary import summarise, told
from pipeline.domain.vocabulary import Outcome
from pipeline.history.audits.audit import audit_run
from pipeline.history.reports.report import write_report
from pipeline.history.view import RunView
from pipeline.history.watch import Positions, Watch, load_samples, read_view
from pipeline.local.files import read_json, write_json
from pipeline.runs import StartedRun, connection_of, init_run, open_run, store_of

ROLES: Final = (
    Role("trainer", "1"),
    Role("generator", "1"),
    Role("generator", "2"),
    Role("scheduler", "1"),
    Role("scorer", "1"),
    Role("scorer", "2"),
    Role("assembler", "1"),
    Role("assembler", "2"),
    Role("filter", "1"),
    Role("batcher", "1"),
    Role("reaper", "1"),
    Role("monitor", "1"),
)
SAMPLES: Final = "redis"
GO_ON: Final = "go on with: tamis demo --resume   (make demo ARGS=--resume)"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    state: Path
    task: str
    seed: int
    steps: int
    filtered: bool
    resume: bool
    json_path: Path | None
    bootstrap: str | None
    redis_url: str | None


def run_demo(options: Options, console: Console) -> int:
    """Run it. Exit code 0 if it finished with a clean audit, 1 if not, 128 + a signal's number if one stopped it.
    Raises DemoFailed, LocalServicesError, LogError, StoreError or FileNotFoundError, with what to do."""
    demo = Demo(options, Screen(console))
    try:
        return supervise(demo.run, demo.end_at_once)
    finally:
        demo.screen.close()
        if demo.lock is not None:
            demo.lock.close()


@dataclass(slots=True)
class Demo:
    """One demo under way."""

    options: Options
    screen: Screen
    processes: Processes | None = None
    advice: str = "stopped before the run began"
    lock: IO[str] | None = None
    started_s: float = field(default_factory=time.monotonic)

    def run(self, stopping: Stopping) -> int:
        """All of it."""
        options, say = self.options, self.screen.say
        options.state.mkdir(parents=True, exist_ok=True)
        self._lock_out_others()
        services = local.ensure(
            options.state,
            bootstrap=options.bootstrap,
            redis_url=options.redis_url,
            say=lambda text: say(text, "dim"),
        )
        settings = load_settings(
            bootstrap=services.bootstrap,
            redis_url=services.redis_url,
            run=self._run_name(),
            data_dir=options.state / "files",
        )
        say(f"Kafka {services.bootstrap}, Redis {settings.redis_address()} ({services.how})", "dim")
        run = open_run(connection_of(settings)) if options.resume else self._begin(settings)
        self.advice = f"stopped; {GO_ON}"
        view, seen = read_view(connection_of(settings)) if options.resume else (RunView(), {})
        logs = options.state / "logs" / run.rules.run
        load_samples(view, logs / SAMPLES)
        if view.drained:
            say(f"run {run.rules.run} is complete: {view.step} of {view.steps} steps, {view.outcome}; nothing is left")
        else:
            say(f"run {run.rules.run}: {run.rules.steps} steps, seed {run.rules.seed}; Ctrl-C stops it in order")
            try:
                self._watch(run, settings, logs, stopping, view, seen)
            except Interrupted:
                self.screen.close()
                say(self.advice)
                raise
            except DemoFailed as error:
                raise DemoFailed(f"{error}\nonce that is mended, {GO_ON}") from error
        code = self._finish(run, settings, view)
        if options.bootstrap is None or options.redis_url is None:
            say("\nKafka and Redis were left running; stop them with: tamis down   (make down)", "dim")
        return code

    def end_at_once(self) -> None:
        """Leave nothing running, from any thread."""
        self.screen.close()
        if self.processes is not None:
            self.processes.kill()
        self.screen.say(self.advice)

    def _lock_out_others(self) -> None:
        """Raise DemoFailed if a demo is running in this state folder: it would fight with this one over its run."""
        self.lock = (self.options.state / "demo.lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DemoFailed(
                f"another demo is running in {self.options.state}: let it end, stop it with Ctrl-C, or name another "
                "folder in TAMIS_STATE"
            ) from error

    def _run_name(self) -> str:
        """A new name, or that of the last demo."""
        if not self.options.resume:
            return f"demo-{datetime.now():%Y%m%d-%H%M%S}"
        last = self.options.state / "demo.json"
        name = read_json(last).get("run")
        if name is None:
            raise FileNotFoundError(f"there is no demo to resume: {last} is missing; start one with: tamis demo")
        return str(name)

    def _begin(self, settings: ProcessSettings) -> StartedRun:
        options = self.options
        config = recipe(settings.run or "", options.seed, options.steps, options.filtered, options.task)
        run = init_run(config, settings)
        write_json(options.state / "demo.json", {"run": run.rules.run})
        return run

    def _watch(
        self,
        run: StartedRun,
        settings: ProcessSettings,
        logs: Path,
        stopping: Stopping,
        view: RunView,
        seen: Positions,
    ) -> None:
        """Run the processes until the run is over and all of them have ended. Raises Interrupted if stopped."""
        store = store_of(settings, run.rules.run, run.rules.max_payload_bytes)
        logs.mkdir(parents=True, exist_ok=True)
        watch = Watch(connection_of(settings), store, logs / SAMPLES, view, seen)
        processes = Processes(_environment(settings), logs)
        with stopping.in_order():
            self.processes = processes
            try:
                watch.start()
                processes.start(ROLES)
                while not stopping() and not (processes.finished() and watch.view.drained):
                    for sentence in processes.tend():
                        self.screen.say(sentence, "yellow")
                    if watch.errors:
                        raise watch.errors[0]
                    with watch.lock:
                        standing = self._standing(problem=watch.redis_problem or "")
                        self.screen.update(watch.view, standing, time.monotonic())
                    time.sleep(0.2)
            finally:
                if stopping():
                    self.screen.close()
                    self.screen.say("stopping the processes in order …", "dim")
                killed = processes.stop()
                watch.stop()
            if killed:
                self.screen.say(f"had to be killed: {', '.join(killed)}", "yellow")
        self.advice = "stopped; the run is complete, and tamis demo --resume audits it and writes its report"

    def _standing(self, doing: str = "", problem: str = "") -> Standing:
        processes = self.processes.standing() if self.processes is not None else []
        return Standing(processes, time.monotonic() - self.started_s, time.time_ns() // 1_000_000, doing, problem)

    def _finish(self, run: StartedRun, settings: ProcessSettings, view: RunView) -> int:
        options = self.options
        self.screen.update(view, self._standing("replaying every decision, and checking each invariant"), 0.0)
        store = store_of(settings, run.rules.run, run.rules.max_payload_bytes)
        found, keys_left = audit_run(connection_of(settings), store), store.count_keys()
        report = options.state / "reports" / f"{run.rules.run}.html"
        report.parent.mkdir(parents=True, exist_ok=True)
        write_report(report, view, found, keys_left, note_of(run.config))
        summary = summarise(view, found, keys_left, report)
        if options.json_path is not None:
            write_json(options.json_path, summary)
        self.screen.close()
        self.screen.say(f"\n{told(summary)}")
        return 0 if found.clean and view.outcome is Outcome.COMPLETED else 1


def _environment(settings: ProcessSettings) -> dict[str, str]:
    redis_url = settings.redis_url.get_secret_value() if settings.redis_url else ""
    return {
        "TAMIS_BOOTSTRAP": settings.bootstrap or "",
        "TAMIS_REDIS_URL": redis_url,
        "TAMIS_RUN": settings.run or "",
        "TAMIS_DATA_DIR": str(settings.data_dir),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
