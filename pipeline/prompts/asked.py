"""A user's prompt source, asked: what it raises, or answers that is no answer, is told with its name and the next step.

The run can't go on without the prompt, so each is a ConfigError: `init` creates nothing, a scheduler ends with exit 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from pipeline.config.errors import ConfigError
from pipeline.domain.told import kind, shown, told_error
from pipeline.prompts.task import decode, encode
from pipeline.sdk import PromptSource, Task


class Asked:
    """A PromptSource over another; what else it has (`verifiers`, `left_out`) stays within reach.

    `factory` made it, `key` is the part of the configuration that names that."""

    def __init__(self, source: PromptSource, factory: str, key: str) -> None:
        self._source, self._factory, self._key = source, factory, key
        self.content_hash = source.content_hash

    def domains(self) -> Sequence[str]:
        """The domains that it has prompts for."""
        answer = self._ask("domains()", lambda: self._source.domains())
        if isinstance(answer, str) or not isinstance(answer, Iterable):
            self._refuse("domains()", f"gave {shown(answer)}; expected the names of domains")
        names: tuple[str, ...] = self._ask("domains()", lambda: tuple(answer))
        for name in names:
            if not isinstance(name, str):
                self._refuse("domains()", f"named {shown(name)}, of type {kind(name)}; expected text")
        return names

    def size(self, domain: str) -> int:
        """Prompts in one pass of a domain."""
        call = f"size({domain!r})"
        answer = self._ask(call, lambda: self._source.size(domain))
        if type(answer) is not int or answer < 0:
            self._refuse(call, f"gave {shown(answer)}; expected a whole number of at least 0")
        return answer

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        """The task at a place in the order: one that can be written down."""
        call = f"at({domain!r}, {ordinal}, {epoch})"
        answer = self._ask(call, lambda: self._source.at(domain, ordinal, epoch))
        if not isinstance(answer, Task):
            self._refuse(call, f"gave {shown(answer)}; expected a pipeline.sdk.Task")
        again = self._ask(call, lambda: decode(encode(answer)), "gave a task that can't be written down:")
        if not isinstance(again.id, str):
            self._refuse(call, f"gave a task whose id is {shown(again.id)}; expected text")
        return answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def _ask(self, call: str, ask: Callable[[], Any], what: str = "raised") -> Any:
        """What it answers. Foreign code may raise anything, SystemExit too; only Ctrl-C isn't its own."""
        try:
            return ask()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._refuse(call, f"{what} {told_error(error)}", error)

    def _refuse(self, call: str, what: str, cause: BaseException | None = None) -> NoReturn:
        message = f"{self._factory}: {call} {what}; mend the source"
        raise ConfigError.of("source_failed", message, (self._key, "factory")) from cause
