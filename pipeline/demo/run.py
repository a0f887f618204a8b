"""The demo from beginning to end: services, run, processes, watching, audit, report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline import local
from pipeline.config import ProcessSettings, load_settings
from pipeline.demo.live import Screen
from pipeline.demo.processes import Processes, Role
from pipeline.demo.recipe import NOTE, recipe
from pipeline.history.audit import Audit, audit_run
from pipeline.history.report import write_report
from pipeline.history.view import RunView
from pipeline.history.watch import Watch
from pipeline.process import stop_on_signals
from pipeline.runs import StartedRun, connection_of, init_run, open_run, store_of

ROLES = (
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
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    state: Path
    seed: int
    steps: int
    filtered: bool
    resume: bool
    json_path: Path | None
    bootstrap: str | None
    redis_url: str | None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the watching ended."""

    interrupted: bool
    view: RunView


def run_demo(options: Options, console: Console) -> int:
    """Run it. Exit code 0 if it finished with a clean audit, 1 if not, 130 if it was interrupted."""
    stopping = stop_on_signals()
    services = local.ensure(
        options.state,
        bootstrap=options.bootstrap,
        redis_url=options.redis_url,
        say=lambda text: console.print(text, style="dim", highlight=False),
    )
    console.print(f"Kafka {services.bootstrap}, Redis {services.redis_url} ({services.how})", style="dim")
    name = _run_name(options)
    settings = load_settings(
        bootstrap=services.bootstrap, redis_url=services.redis_url, run=name, data_dir=options.state / "files"
    )
    run = open_run(connection_of(settings)) if options.resume else _begin(options, settings)
    console.print(f"run {name}: {run.rules.steps} steps, seed {run.rules.seed}", highlight=False)
    ending = _watch(run, settings, options, stopping, console)
    if ending.interrupted:
        console.print("stopped; go on with: tamis demo --resume   (make demo ARGS=--resume)", highlight=False)
        return INTERRUPTED
    return _finish(run, settings, options, ending.view, console)


def _begin(options: Options, settings: ProcessSettings) -> StartedRun:
    run = init_run(recipe(settings.run or "", options.seed, options.steps, options.filtered), settings)
    (options.state / "demo.json").write_text(json.dumps({"run": run.rules.run}))
    return run


def _run_name(options: Options) -> str:
    """A new name, or that of the last demo."""
    if not options.resume:
        return f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    last = options.state / "demo.json"
    if not last.is_file():
        raise FileNotFoundError(f"there is no demo to resume: {last} is missing; start one with: tamis demo")
    return str(json.loads(last.read_text())["run"])


def _watch(
    run: StartedRun, settings: ProcessSettings, options: Options, stopping: Callable[[], bool], console: Console
) -> Ending:
    """Run the processes until the run is over and all of them have ended, or until a person stops it."""
    watch = Watch(connection_of(settings), store_of(settings, run.rules.run, run.rules.max_payload_bytes))
    processes = Processes(_environment(settings), options.state / "logs" / run.rules.run)
    watch.start()
    try:
        processes.start(ROLES)
        with Screen(console) as screen:
            while not stopping() and not (processes.finished() and watch.view.drained):
                for sentence in processes.tend():
                    screen.say(sentence)
                if watch.errors:
                    raise watch.errors[0]
                with watch.lock:
                    screen.update(watch.view, time.monotonic())
                time.sleep(0.2)
    finally:
        killed = processes.stop()
        watch.stop()
    if killed:
        console.print(f"had to be killed: {', '.join(killed)}", style="yellow")
    return Ending(stopping(), watch.view)


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


def _finish(run: StartedRun, settings: ProcessSettings, options: Options, view: RunView, console: Console) -> int:
    store = store_of(settings, run.rules.run, run.rules.max_payload_bytes)
    found = audit_run(connection_of(settings), store)
    report = options.state / "reports" / f"{run.rules.run}.html"
    report.parent.mkdir(parents=True, exist_ok=True)
    keys_left = store.count_keys()
    write_report(report, view, found, keys_left, NOTE)
    summary = summarise(view, found, keys_left)
    if options.json_path is not None:
        options.json_path.write_text(json.dumps(summary, indent=2) + "\n")
    _print(summary, view, report, console)
    return 0 if found.clean and view.outcome == "completed" else 1


def summarise(view: RunView, found: Audit, keys_left: int) -> dict[str, Any]:
    """What `--json` writes."""
    first, last = view.progress.first_evaluation, view.progress.last_evaluation
    return {
        "run": view.run,
        "seed": view.seed,
        "outcome": str(view.outcome),
        "steps": view.step,
        "accuracy_before": first.accuracy if first else None,
        "accuracy_after": last.accuracy if last else None,
        "groups": view.groups.opened,
        "accepted": view.groups.accepted,
        "rejected": dict(view.groups.rejected),
        "replacements": view.groups.replacements,
        "keys_left": keys_left,
        "training_seconds": round(sum(row.seconds for row in view.progress.batches), 1),
        "audit": "clean" if found.clean else list(found.violations),
    }


def _print(summary: dict[str, Any], view: RunView, report: Path, console: Console) -> None:
    before, after = summary["accuracy_before"], summary["accuracy_after"]
    accuracy = f"{before:.1%} → {after:.1%}" if before is not None and after is not None else "not measured"
    rejected = sum(view.groups.rejected.values())
    audit = summary["audit"]
    console.print(
        f"\n[bold]{view.outcome}[/] after {summary['steps']} steps in {summary['training_seconds']:.0f} s of training\n"
        f"  held-out accuracy  {accuracy}\n"
        f"  groups             {summary['groups']} opened, {summary['accepted']} accepted, {rejected} rejected, "
        f"{summary['replacements']} replacements\n"
        f"  payloads left      {summary['keys_left']} keys\n"
        f"  audit              {audit if audit == 'clean' else f'{len(audit)} violations'}\n"
        f"  report             {report}",
        highlight=False,
    )
    for violation in audit if audit != "clean" else ():
        console.print(f"  [red]{violation}", highlight=False)
