"""What only the user can name: placeholders that say what to write."""

from __future__ import annotations

from pipeline.config.imports.table import Draft

WRITE = "my_package.my_module"


def ask_for_environment(draft: Draft) -> None:
    """A placeholder for what episodes are played with."""
    what = "your environment, as package.module:attribute (pipeline/sdk.py, Environment)"
    draft.ask("environment", "factory", value=f"{WRITE}:Environment", what=what)


def ask_for_plugins(draft: Draft, evaluated: bool) -> None:
    """Placeholders for the name, the length and the plugins of a run, as far as they are missing."""
    draft.ask("run", value="imported", what="a name for the run")
    draft.ask("steps", value=1000, what="batches to train on")
    for port, what in (("prompts", "PromptSource"), ("engine", "Engine"), ("learner", "Learner")):
        draft.ask(
            port, "factory", value=f"{WRITE}:{what}", what=f"your {port}, as package.module:attribute (pipeline/sdk.py)"
        )
    if evaluated:
        what = "your prompts for evaluation, other than those for training"
        draft.ask("eval_prompts", "factory", value=f"{WRITE}:EvalPrompts", what=what)
