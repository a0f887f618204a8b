"""What the domain asks of the outside: prompts to issue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Issuable:
    """A prompt as it would be issued: its id, its task as opaque bytes, its length in tokens. `problem` says why it
    can't be issued; None: it can."""

    id: str
    task: bytes
    tokens: int
    problem: str | None


class Prompts(Protocol):
    """Prompts by place. Deterministic: the same arguments give the same answer for ever."""

    def size(self, domain: str) -> int:
        """Prompts in one pass (epoch) of a domain."""
        ...

    def at(self, domain: str, ordinal: int, epoch: int) -> Issuable:
        """The prompt at a place in the order, `0 <= ordinal < size(domain)`."""
        ...
