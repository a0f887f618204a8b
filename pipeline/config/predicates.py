"""The predicates of the response filter that a configuration can name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipeline.config.values import Pattern, Plugin, Section


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
    """Rejects what a callable of the user's own says. `on_error`: what an exception in it decides: have the response
    replaced, keep it, or end the run."""

    type: Literal["custom"]
    on_error: Literal["reject", "keep", "raise"] = "reject"


Predicate = Annotated[
    InvalidFormat | Truncated | MinTokens | MaxTokens | MaxRepetition | CustomPredicate, Field(discriminator="type")
]
