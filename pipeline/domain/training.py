"""The trainer's book: which batch is next, whether it has been trained on before, and when a checkpoint is due.

The trainer is not a pure stage (it steps an optimizer), but what it does next is a pure function of the ledger, so the
simulator drives the same book. `incarnation` numbers the trainers of a run; each has to train again, without any event,
the batches that the last checkpoint doesn't cover.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.vocabulary import Purpose, ReturnReason


@dataclass(slots=True)
class Pending:
    """A batch that neither a checkpoint nor a return has ended. `applied`: this incarnation's weights know it;
    `steps_before`: steps done when its BatchFormed was read, which a restart from there needs."""

    formed: e.BatchFormed
    offset: int
    steps_before: int
    trained: bool = False
    saved: bool = False
    applied: bool = False

    def payload_bytes(self) -> int:
        """Bytes that its payloads hold in Redis."""
        return sum([g.payload_bytes for g in self.formed.groups])


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy file, by version."""

    version: int
    path: str
    sha256: str


@dataclass(slots=True)
class Book:
    """`published` is the policy last named in the ledger, at `published_offset`; `saved` the last checkpoint.
    `skipped`: the numbers of steps without a batch since it, while there were weights to save."""

    steps_done: int = 0
    incarnation: int = 0
    published: Policy | None = None
    published_offset: int = -1
    saved: Policy | None = None
    saved_offset: int = -1
    pending: dict[int, Pending] = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)
    evaluating: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    closing_offset: int = -1
    closing_steps: int = 0
    failed: bool = False
    finished: bool = False
    oldest_wanted: int = 0


@dataclass(frozen=True, slots=True)
class Begin:
    """Nothing was ever trained: write checkpoint 0 and the first policy."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Load the last checkpoint and announce this incarnation."""

    checkpoint: Policy
    published: Policy
    incarnation: int


@dataclass(frozen=True, slots=True)
class Train:
    """Take one step on a batch. `silent`: it has its BatchTrained, so only the weights learn of it. `version`: of the
    policy that comes out. `checkpoint`: the batches that a checkpoint written with it covers, this one last, or ()."""

    batch: int
    silent: bool
    version: int
    checkpoint: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Save:
    """Write a checkpoint that covers these batches."""

    batches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Return a batch untrained."""

    batch: int
    reason: ReturnReason


Action = Begin | TakeOver | Train | Save | GiveBack


def note(book: Book, event: e.Event, offset: int) -> None:
    """Fold one ledger record, the trainer's own included. A fold may begin at any committed position: what is said of
    batches formed before it concerns the steps done and nothing else."""
    match event:
        case e.BatchFormed():
            book.pending[event.batch] = Pending(event, offset, book.steps_done)
        case e.BatchTrained():
            book.steps_done += 1
            book.published, book.published_offset = Policy(event.version, event.path, event.sha256), offset
            if event.batch in book.pending:
                book.pending[event.batch].trained = True
            _forget_if_over(book, event.batch)
        case e.BatchSkipped():
            book.steps_done += 1
            if any(p.trained for p in book.pending.values()):
                book.skipped.append(book.steps_done)
        case e.BatchReturned():
            book.pending.pop(event.batch, None)
            book.steps_done -= event.trained
        case e.CheckpointSaved():
            book.saved, book.saved_offset = Policy(event.version, event.path, event.sha256), offset
            book.skipped.clear()
            for number in event.batches:
                if number in book.pending:
                    book.pending[number].saved = True
                _forget_if_over(book, number)
        case e.TrainerStarted():
            book.incarnation = max(book.incarnation, event.incarnation)
            if book.published is None or event.version >= book.published.version:
                book.published, book.published_offset = Policy(event.version, event.path, event.sha256), offset
        case e.EvaluationStarted():
            book.evaluating[event.eval.id] = (offset, book.steps_done, event.eval.path)
        case e.EvaluationFinished():
            book.evaluating.pop(event.eval.id, None)
        case e.RunClosing():
            book.closing_offset, book.closing_steps = offset, book.steps_done
        case e.StageFailed(stage="trainer"):
            book.failed = True
        case e.GroupOpened(purpose=Purpose.TRAIN):
            book.oldest_wanted = max(book.oldest_wanted, event.min_version)
        case e.RunFinished():
            book.finished = True
        case _:
            return


def _forget_if_over(book: Book, number: int) -> None:
    """A batch is over when it is both trained and covered by a checkpoint; the two come in either order."""
    batch = book.pending.get(number)
    if batch is not None and batch.trained and batch.saved:
        del book.pending[number]


def position(book: Book, next_offset: int) -> tuple[int, int]:
    """The offset to commit, and the steps done before it: the lowest of what isn't over, else the next record."""
    places = [(p.offset, p.steps_before) for p in book.pending.values()]
    places += [(offset, steps) for offset, steps, _ in book.evaluating.values()]
    if book.closing_offset >= 0:
        places.append((book.closing_offset, book.closing_steps))
    return min([*places, (next_offset, book.steps_done)])


def next_action(book: Book, rules: Rules, joined: bool) -> Action | None:
    """What to do now. `joined`: this incarnation has announced itself. None: wait for the ledger."""
    if book.finished:
        return None
    closing = book.closing_offset >= 0
    if not joined:
        if book.saved is None or book.published is None:
            return None if closing else Begin()
        return TakeOver(book.saved, book.published, book.incarnation + 1)
    if book.failed:
        return next((GiveBack(b, ReturnReason.FAILED) for b in book.pending), None)
    for number, batch in book.pending.items():
        if closing and not batch.trained:
            return GiveBack(number, ReturnReason.RUN_OVER)
        if not batch.applied:
            return _train(book, rules, number, batch)
    applied = tuple(book.pending)
    return Save(applied) if applied and (closing or _is_due(book, rules, book.steps_done)) else None


def _train(book: Book, rules: Rules, number: int, batch: Pending) -> Train:
    published = book.published.version if book.published else 0
    if batch.trained:
        return Train(number, True, published, ())
    steps = book.steps_done + 1
    covered = (*[n for n, p in book.pending.items() if p.applied], number)
    due = _is_due(book, rules, steps, batch)
    return Train(number, False, published + 1, covered if due else ())


def _is_due(book: Book, rules: Rules, steps: int, extra: Pending | None = None) -> bool:
    """Every K steps, also where that one was skipped, with the last step, and when trained payloads that no checkpoint
    covers exceed half the budget."""
    held = sum([p.payload_bytes() for p in book.pending.values() if p.applied])
    held += extra.payload_bytes() if extra is not None else 0
    reached = any(step % rules.checkpoint_every == 0 for step in (steps, *book.skipped))
    return reached or steps >= rules.steps or 2 * held > rules.payload_budget


def disposable(book: Book, version: int, path: str) -> bool:
    """Whether no generator can still want a policy's file: a group asks for two versions more, no unfinished evaluation
    names it, it is not the one last published, and no checkpoint is it."""
    named = {path for _, _, path in book.evaluating.values()}
    if book.saved is not None:
        named.add(book.saved.path)
    if book.published is not None:
        named.add(book.published.path)
    return book.oldest_wanted >= version + 2 and path not in named
