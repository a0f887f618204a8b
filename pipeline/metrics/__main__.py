"""`python -m pipeline.metrics > docs/metrics.md`"""

from __future__ import annotations

from pipeline.metrics.declared import METRICS, Declared

_HEAD = """# Metrics

Made from the declarations in pipeline/metrics/declared.py by `python -m pipeline.metrics > docs/metrics.md`.

A consumer serves its numbers at `http://…:$TAMIS_METRICS_PORT/metrics`, if that variable is set. The monitor serves
those of the run, which it knows from the log and Redis: one of it is enough. All others serve their own, and what
prometheus-client knows of a process (`process_…`). Consumers on one machine need ports of their own.

Counters by reason or stage are there from the start, at 0, for every name that the vocabulary or the run's
configuration knows. They count the whole run, so that a monitor that is started anew goes on where the last one was.
One that ends with its run (`--until-finished`) waits until it has been asked for the last numbers, 15 s at most, if it
was ever asked.

With `TAMIS_TRACKERS` (`jsonl`, `tensorboard`, `wandb`, separated by commas) the monitor also writes a row for each step
and each evaluation, to `$TAMIS_DATA_DIR/RUN/trackers` or to Weights & Biases. The latter two are extras of the package:
`pip install 'tamis[tensorboard]'`, `'tamis[wandb]'`.
"""


def document() -> str:
    """docs/metrics.md."""
    run = [metric for metric in METRICS if metric.served_by == "monitor"]
    own = [metric for metric in METRICS if metric.served_by == "consumer"]
    scorer = [metric for metric in METRICS if metric.served_by == "scorer"]
    return "\n".join([
        _HEAD, "## Of the run, from the monitor\n", *_table(run), "", "## Of each other consumer\n", *_table(own), "",
        "## Of each scorer, beside these\n", *_table(scorer),
    ])  # fmt: skip


def _table(metrics: list[Declared]) -> list[str]:
    rows = ["| name | type | unit | labels | meaning |", "|---|---|---|---|---|"]
    for m in metrics:
        name = f"{m.name}_total" if m.kind == "counter" else m.name
        rows.append(
            f"| `{name}` | {m.kind} | {m.unit} | {', '.join(m.labels) or '–'} | {m.meaning.replace('<', '&lt;')} |"
        )
    return rows


if __name__ == "__main__":
    print(document())
