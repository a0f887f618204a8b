"""The prompts of a run from its own records, so that its scheduler can be replayed where the source is not at hand.

How many prompts a source has is not recorded, but all that the scheduler asked of it is: once a second pass was begun,
the first tells the size; before that, the source is taken to end behind the last prompt drawn. The scheduler only ever
asks for more when it drew everything within one step, and then it did end there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.domain import events as e
from pipeline.domain.ports import Issuable
from pipeline.domain.vocabulary import Outcome, Purpose, StarvationCause

_REFUSED = "prompt "


class NotRecorded(Exception):
    """The scheduler asks for a prompt that the log doesn't have (yet)."""


@dataclass(slots=True)
class RecordedPrompts:
    """The domain's port `Prompts` over what was issued, skipped, or refused and so ended the run."""

    found: dict[tuple[str, int, int], Issuable] = field(default_factory=dict)
    tasks: dict[bytes, bytes] = field(default_factory=dict)
    first_pass: dict[str, int] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)
    refused: Issuable | None = None

    def size(self, domain: str) -> int:
        """Prompts in one pass, as far as it mattered."""
        seen = self.first_pass.get(domain, 0)
        return seen + 1 if self.refused is not None and not self.whole.get(domain) else seen

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
        if ref.epoch == 0:
            self.first_pass[ref.domain] = max(self.first_pass.get(ref.domain, 0), ref.ordinal + 1)
        else:
            self.whole[ref.domain] = True


@dataclass(slots=True)
class PromptsSeen:
    """Gathers the prompts of training and of evaluation from the records of `prompts` and `ledger`."""

    training: RecordedPrompts = field(default_factory=RecordedPrompts)
    evaluation: RecordedPrompts = field(default_factory=RecordedPrompts)
    eval_groups: int = 0
    _places: dict[int, dict[str, tuple[str, int]]] = field(default_factory=dict)

    def note(self, event: e.Event) -> None:
        """Fold one record."""
        match event:
            case e.PromptIssued(purpose=Purpose.TRAIN):
                self.training.add(event.prompt, event.task, None)
            case e.PromptIssued(eval=e.EvalRef(id=number)):
                self.evaluation.add(event.prompt, event.task, None)
                self._places.setdefault(number, {})[event.group_id] = (event.prompt.domain, event.prompt.ordinal)
            case e.PromptSkipped():
                self.training.add(event.prompt, b"", event.detail)
            case e.EvaluationStarted():
                self.eval_groups = event.groups
            case e.StarvationRaised(cause=StarvationCause.SOURCE_EXHAUSTED):
                self.training.whole[event.domain] = True
            case e.RunClosing(outcome=Outcome.FAILED) if event.detail.startswith(_REFUSED):
                name, _, problem = event.detail.removeprefix(_REFUSED).partition(": ")
                self.training.refused = Issuable(name, b"", 0, problem)
            case _:
                return

    def eval_places(self) -> tuple[tuple[str, int], ...]:
        """The places of an evaluation in the order of opening; those that no evaluation got to are made up."""
        longest = max(self._places.values(), key=len, default={})
        known = [longest[group] for group in sorted(longest, key=_number)]
        return (*known, *(("", i) for i in range(len(known), self.eval_groups)))


def _number(group_id: str) -> int:
    return int(group_id.partition("@")[0])
