"""What the scheduler knows: live groups, shares of the domains, batches, evaluations, the run's clock and its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.domain import events as e
from pipeline.domain.vocabulary import Outcome, Purpose


class Phase(StrEnum):
    """Where a live group stands. `trained`: its batch has no checkpoint yet. `spent`: deselected without refill; it
    has ended, and counts for the lead until the next step."""

    OPEN = "open"
    POOL = "pool"
    FORMED = "formed"
    TRAINED = "trained"
    SPENT = "spent"


@dataclass(slots=True)
class Live:
    """A group that has not ended."""

    prompt: e.PromptRef
    purpose: Purpose
    root: str
    attempt: int
    phase: Phase = Phase.OPEN
    payload_bytes: int = 0


@dataclass(slots=True)
class Share:
    """One domain's part of the run. `open`, `pool`, `formed` (spent ones too) count live training groups by phase;
    `drawn` counts the prompts drawn from the source, also by the run that this one was forked from, `drawn_this_step`
    those since the last step. `solved`: prompts left out of later passes, by id, with the pass rate that says so. The
    rest is for starvation; `kinds` counts rejections by what they are to be blamed on (advice.py), `last_outage` is the
    detail of the last one that nobody judged, or if there is none, of the last that lacks what its filter looks at."""

    open: int = 0
    pool: int = 0
    formed: int = 0
    drawn: int = 0
    drawn_this_step: int = 0
    exhausted: bool = False
    solved: dict[str, float] = field(default_factory=dict)
    acceptance: float = 1.0
    rejected_in_a_row: int = 0
    recent: list[bool] = field(default_factory=list)
    idle_ms: int = 0
    accepted: int = 0
    invalid: int = 0
    low_information: int = 0
    system: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    last_outage: str = ""

    def progressed(self) -> None:
        """Forget what pointed to starvation."""
        self.rejected_in_a_row = 0
        self.recent.clear()
        self.idle_ms = 0
        self.accepted = self.invalid = self.low_information = self.system = 0
        self.kinds.clear()
        self.last_outage = ""


@dataclass(slots=True)
class Batch:
    """A formed batch until it is both trained and covered by a checkpoint, or returned."""

    groups: list[str]
    trained: bool = False
    saved: bool = False


@dataclass(slots=True)
class Evaluation:
    """An evaluation that was started. `opened` of its prompts are issued, `closed` of them have ended."""

    ref: e.EvalRef
    step: int
    groups: int
    opened: int = 0
    closed: int = 0
    graded: int = 0
    ungraded: int = 0
    failed: int = 0
    means: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """The scheduler's state. `next_group` numbers all groups; `open_in` counts open groups by partition. `last_call`:
    the steps done when the source had ended, -1 before; the run is over one step later. `short_batch_asked`: the
    batcher has not yet answered a request for a short batch."""

    shares: dict[str, Share]
    open_in: list[int]
    next_group: int = 0
    live: dict[str, Live] = field(default_factory=dict)
    batches: dict[int, Batch] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    last_evaluated_step: int = -1
    policy: e.PolicyPublished | None = None
    steps_done: int = 0
    last_call: int = -1
    short_batch_asked: bool = False
    turn: int = 0
    held_bytes: int = 0
    largest_payload: int = 0
    run_ms: int = 0
    last_tick: int | None = None
    closing: Outcome | None = None
    finished: bool = False

    def untrained(self) -> int:
        """Batches formed and not yet trained on."""
        return len([b for b in self.batches.values() if not b.trained])

    def open_training(self) -> int:
        """Training groups that are open."""
        return sum([s.open for s in self.shares.values()])
