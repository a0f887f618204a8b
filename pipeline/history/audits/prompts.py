"""The prompts of a run from its own records, so that its scheduler can be replayed where the source is not at hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.domain import events as e
from pipeline.domain.ports import Issuable
from pipeline.domain.vocabulary import Outcome, Purpose

_REFUSED = "prompt "


class NotRecorded(Exception):
    """The scheduler asks for a prompt that the log doesn't have (yet)."""


@dataclass(slots=True)
class RecordedPrompts:
    """The domain's port `Prompts` over what was issued, skipped, or refused and so ended the run."""

    sizes: dict[str, int] = field(default_factory=dict)
    found: dict[tuple[str, int, int], Issuable] = field(default_factory=dict)
    tasks: dict[bytes, bytes] = field(default_factory=dict)
    refused: Issuable | None = None

    def size(self, domain: str) -> int:
        """Prompts in one pass, as RunStarted says."""
        return self.sizes[domain]

    def at(self, domain: str, ordinal: int, epoch: int) -> Issuable:
        """The prompt at a place. Raises NotRecorded."""
        found = self.found.get((domain, ordinal, epoch), self.refused)
        if found is None:
            raise NotRecorded(f"no prompt {domain}/{ordinal}/{epoch} is recorded")
        return found

    def add(self, ref: e.PromptRef, task: bytes, problem: str | None) -> None:
        """Remember a prompt; equal tasks are kept once."""
        task = self.tasks.setdefault(task, task)
        self.found.setdefault((ref.domain, ref.ordinal, ref.epoch), Issuable(ref.id, task, 0, problem))


@dataclass(slots=True)
class PromptsSeen:
    """Gathers the prompts of training and of evaluation from the records of `prompts` and `ledger`."""

    training: RecordedPrompts = field(default_factory=RecordedPrompts)
    evaluation: RecordedPrompts = field(default_factory=RecordedPrompts)

    def note(self, event: e.Event) -> None:
        """Fold one record."""
        match event:
            case e.PromptIssued(purpose=Purpose.TRAIN):
                self.training.add(event.prompt, event.task, None)
            case e.PromptIssued():
                self.evaluation.add(event.prompt, event.task, None)
            case e.PromptSkipped():
                self.training.add(event.prompt, b"", event.detail)
            case e.RunStarted():
                self.training.sizes, self.evaluation.sizes = event.prompt_sizes, event.eval_prompt_sizes
            case e.RunClosing(outcome=Outcome.FAILED) if event.detail.startswith(_REFUSED):
                name, _, problem = event.detail.removeprefix(_REFUSED).partition(": ")
                self.training.refused = Issuable(name, b"", 0, problem)
            case _:
                return
