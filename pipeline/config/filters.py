"""The filters that a configuration can name: of groups (one chain per domain) and of single responses."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipeline.config.values import Many, Metric, Pattern, Plugin, Section


class GroupFilter(Section):
    """Base of the group filters. A new one is a class here and its name in `Filter`."""

    needs_spread: ClassVar[bool] = False
    """Whether it measures how rewards differ, which a group of one can't show."""


class NoFilter(GroupFilter):
    """Rejects nothing."""

    type: Literal["no_filter"]


class ZeroStd(GroupFilter):
    """Rejects a group whose sample standard deviation is not above `tol`. `metric` defaults to the run's; a constant
    group is called `all_max` when its value is `max_reward`."""

    needs_spread = True

    type: Literal["zero_std"]
    tol: float = Field(1e-8, ge=0)
    metric: Metric | None = None
    max_reward: float = 1.0


Filter = Annotated[NoFilter | ZeroStd, Field(discriminator="type")]
Chain = Annotated[Many[Filter], Field(min_length=1)]


class InvalidFormat(Section):
    """Rejects a response in whose text `pattern` (a regular expression) is not found."""

    type: Literal["invalid_format"]
    pattern: Pattern


class Truncated(Section):
    """Rejects a response that hit its length limit."""

    type: Literal["truncated"]


class MinTokens(Section):
    """Rejects a response of fewer than `value` tokens."""

    type: Literal["min_tokens"]
    value: int = Field(ge=1)


class MaxTokens(Section):
    """Rejects a response of more than `value` tokens."""

    type: Literal["max_tokens"]
    value: int = Field(ge=1)


class MaxRepetition(Section):
    """Rejects a response in which more than `share` of its runs of `ngram` tokens have occurred before."""

    type: Literal["max_repetition"]
    ngram: int = Field(8, ge=1)
    share: float = Field(0.5, ge=0, le=1)


class CustomPredicate(Plugin):
    """Rejects what a callable of the user's own says."""

    type: Literal["custom"]


Predicate = Annotated[
    InvalidFormat | Truncated | MinTokens | MaxTokens | MaxRepetition | CustomPredicate, Field(discriminator="type")
]
