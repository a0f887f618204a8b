"""The prompts that the scheduler issues, taken from a user's source."""

from __future__ import annotations

from pipeline.domain.ports import Issuable
from pipeline.domain.rules import Rules
from pipeline.prompts.task import encode
from pipeline.sdk import PromptSource


class Feed:
    """The domain's port `Prompts` over a PromptSource. A prompt over the limits is given with its problem."""

    def __init__(self, source: PromptSource, rules: Rules) -> None:
        self._source = source
        self._max_tokens = rules.max_prompt_tokens
        self._max_bytes = rules.max_task_bytes

    def size(self, domain: str) -> int:
        """Prompts in one pass of a domain."""
        return self._source.size(domain)

    def at(self, domain: str, ordinal: int, epoch: int) -> Issuable:
        """The prompt at a place in the order."""
        task = self._source.at(domain, ordinal, epoch)
        encoded, tokens = encode(task), len(task.token_ids)
        return Issuable(task.id, encoded, tokens, self._problem(tokens, len(encoded)))

    def _problem(self, tokens: int, size: int) -> str | None:
        if tokens > self._max_tokens:
            return f"{tokens} tokens, more than max_prompt_tokens {self._max_tokens}"
        if size > self._max_bytes:
            return f"a task of {size} bytes, more than max_task_bytes {self._max_bytes}"
        return None
