"""The guards that a configuration can name; a domain has one at most."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipeline.config.values import Section


class NoGuard(Section):
    """No guard: for a domain that shall not have the default one."""

    type: Literal["no_guard"]


class RollRatio(Section):
    """Keeps a group when more than `max_ratio` of all groups so far would be rejected with it. All are those that were
    judged, broken ones too, which no guard keeps. `scope`: of the domain, or of all domains whose guard says `run`."""

    type: Literal["roll_ratio"]
    max_ratio: float = Field(0.5, gt=0, lt=1)
    scope: Literal["domain", "run"] = "domain"


class Window(Section):
    """Keeps a group when more than `max_ratio` of the newest `window` groups would be rejected with it, and there are
    `min_samples`; also after `keep_after` rejections in a row, if that is given."""

    type: Literal["window"]
    window: int = Field(100, ge=1, le=10_000)
    min_samples: int = Field(20, ge=1, le=10_000)
    max_ratio: float = Field(0.5, gt=0, lt=1)
    keep_after: int | None = Field(None, ge=1, le=10**9)


class Consecutive(Section):
    """Keeps a group after `keep_after` rejections in a row."""

    type: Literal["consecutive"]
    keep_after: int = Field(ge=1, le=10**9)


Guard = Annotated[NoGuard | RollRatio | Window | Consecutive, Field(discriminator="type")]
