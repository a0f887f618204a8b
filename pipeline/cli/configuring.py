"""Looking at configurations. Nothing here asks Kafka or Redis."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.common import AsJson, caution, effective_settings, print_json, say
from pipeline.cli.importing import import_config
from pipeline.config import ConfigError, DecisionConfig, ProcessSettings, cautions, check_source, load
from pipeline.config.modules import not_here

Config = Annotated[
    Path,
    typer.Argument(
        help="YAML or TOML file; examples/ has one.", exists=True, dir_okay=False, show_default=False, metavar="CONFIG"
    ),
]
Override = Annotated[
    list[str] | None,
    typer.Option("--set", help="key.path=value over the file's; may be repeated.", metavar="KEY=VALUE"),
]

HELP = """Look at a configuration, or make one, without starting anything.

[bold]From another system:[/bold]  tamis config import --from roll FILE --out run.yaml, then write what it marks \
TO WRITE.

[bold]Then:[/bold]  tamis config check run.yaml says what is wrong with it and what to write instead, tamis config \
show run.yaml prints it with every default, and tamis init run.yaml makes a run of it."""

app = typer.Typer(no_args_is_help=True, help=HELP, rich_markup_mode="rich")
app.command("import")(import_config)


@app.command("check")
def check_config(config: Config, override: Override = None, as_json: AsJson = False) -> None:
    """Say whether a run can be made of a configuration, what is probably not meant in it, and which modules it names
    that aren't here. Prompts of Tamis' own are read."""
    try:
        decisions = load(config, override or [])
        absent = not_here(decisions)
        _check_sources(decisions, {str(problem.path[0]) for problem in absent})
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"run": None, "problems": [str(problem) for problem in error.problems], "cautions": []})
        raise typer.Exit(2) from error
    found = [str(problem) for problem in [*cautions(decisions), *absent]]
    if as_json:
        print_json({"run": decisions.run, "problems": [], "cautions": found})
        return
    for text in found:
        caution(text)
    say(f"{config}: a run called {decisions.run} can be made of it")


def _check_sources(decisions: DecisionConfig, absent: Container[str]) -> None:
    """Raise ConfigError unless the prompt sources of Tamis' own, where they are here, have what the run needs. One of
    the user's own is code, which `tamis init` asks."""
    for name in ("prompts", "eval_prompts"):
        plugin = getattr(decisions, name)
        if plugin is not None and plugin.factory.startswith("pipeline.") and name not in absent:
            from pipeline import plugins

            check_source(decisions, getattr(plugins, name)(decisions), name)


@app.command("show")
def show_config(config: Config, override: Override = None, as_json: AsJson = False) -> None:
    """Print what holds: every value of a configuration and of this environment, and where each comes from.

    Secrets are not shown. What is printed is a configuration file itself.
    """
    from pipeline.config.errors import dotted
    from pipeline.config.load import load_with_source
    from pipeline.config.origins import as_yaml, settings

    decisions, source = load_with_source(config, override or [])
    here = processes()
    if as_json:
        found = {dotted(path): {"value": value, "from": origin} for path, value, origin in settings(decisions, source)}
        print_json({"decisions": found, "processes": here})
        return
    say("# What decides: fixed for ever by tamis init.")
    say(as_yaml(settings(decisions, source)))
    say("\n# Where processes run: from the environment and flags; nothing of it decides.")
    for name, row in here.items():
        say(f"# {name:<12} {row['value']}  ({row['from']})")


def processes() -> dict[str, dict[str, Any]]:
    """The settings of a process that would be started here, and where each comes from. No secrets."""
    found, started = effective_settings(None, None, None)
    shown = found.model_dump(mode="json") | {
        "redis_url": found.redis_address(),
        "kafka": dict.fromkeys(found.kafka, "***"),
    }
    rows = {name: {"value": shown[name], "from": _origin(name, started)} for name in ProcessSettings.model_fields}
    for name in ("metrics_port", "heartbeat"):
        rows[name] = {"value": os.environ.get(f"TAMIS_{name.upper()}"), "from": _origin(name, started)}
    return rows


def _origin(name: str, started: Container[str]) -> str:
    variable = f"TAMIS_{name.upper()}"
    if os.environ.get(variable):
        return variable
    if name in started:
        return "what tamis up started here"
    if name == "data_dir" and os.environ.get("TAMIS_STATE"):
        return "TAMIS_STATE"
    return f"default; {variable} sets it"
