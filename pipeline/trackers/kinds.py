"""The trackers that can be configured. What they keep is made anew from the log at every start, so that a restart
neither doubles a row nor loses one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.config.errors import ConfigError
from pipeline.config.settings import TrackerKind
from pipeline.sdk import Tracker


def open_trackers(kinds: Sequence[TrackerKind], folder: Path, run: str, config: Mapping[str, Any]) -> list[Tracker]:
    """The trackers of a run; files go under `folder`. ConfigError where a package is missing."""
    makers: dict[TrackerKind, Callable[[Path, str, Mapping[str, Any]], Tracker]] = {
        "jsonl": JsonlTracker,
        "tensorboard": TensorboardTracker,
        "wandb": WandbTracker,
    }
    made: list[Tracker] = []
    for kind in kinds:
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        try:
            made.append(makers[kind](place, run, config))
        except ImportError as error:
            message = f"{kind} needs a package that isn't installed ({error.name}); pip install 'tamis[{kind}]'"
            raise ConfigError.of("tracker_missing", message, where="TAMIS_TRACKERS") from error
    return made


class JsonlTracker:
    """A line of JSON for each row: `step`, then the numbers."""

    def __init__(self, folder: Path, run: str, config: Mapping[str, Any]) -> None:
        (folder / "config.json").write_text(json.dumps({"run": run, **config}, indent=2) + "\n")
        self._file = (folder / "metrics.jsonl").open("w")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write a row, at once."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class TensorboardTracker:
    """Event files for TensorBoard: `tensorboard --logdir DATA_DIR/RUN/trackers/tensorboard`."""

    def __init__(self, folder: Path, run: str, config: Mapping[str, Any]) -> None:
        from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

        shutil.rmtree(folder)
        self._writer = SummaryWriter(str(folder), flush_secs=5)
        self._writer.add_text("config", f"```json\n{json.dumps({'run': run, **config}, indent=2)}\n```")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbTracker:
    """Weights & Biases; its own environment (WANDB_PROJECT, WANDB_MODE, WANDB_API_KEY, …) says where. Rows come in the
    same order at every start, so that a run that is resumed there leaves out as many as it has."""

    def __init__(self, folder: Path, run: str, config: Mapping[str, Any]) -> None:
        import wandb

        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        self._run = wandb.init(
            id=run, name=run, config=dict(config), dir=str(folder), resume="allow", settings=settings
        )
        self._run.define_metric("*", step_metric="step")
        self._there = self._run.step

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send a row; its axis is `step`, since an evaluation may end after later steps."""
        if self._there > 0:
            self._there -= 1
            return
        self._run.log({"step": step, **values})

    def close(self) -> None:
        self._run.finish()
