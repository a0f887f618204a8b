"""Where a run begins that was forked from another: `tamis fork` writes this section, and puts the checkpoint there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from pipeline.config.values import Name, RunName, Section
from pipeline.domain.training import Policy

Whole = Annotated[int, Field(ge=0, lt=2**63)]


class Start(Section):
    """The run that it goes on from, after `step` steps, with its policy `version`; its checkpoint's copy in the new
    run's folder; and by domain how many prompts it had drawn, where these are gone on with."""

    run: RunName
    step: Whole
    version: Whole
    checkpoint: Annotated[str, StringConstraints(pattern=r"^checkpoints/[A-Za-z0-9._-]+\z")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}\z")]
    prompts: dict[Name, Whole] = Field({})

    def policy(self) -> Policy:
        """The checkpoint's copy."""
        return Policy(self.version, self.checkpoint, self.sha256)
