"""What the serving loop asks of a generator or a scorer, and what passes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pipeline.domain.events import Event
from pipeline.domain.topology import Output, StageName, Topic
from pipeline.log.tracker import Tracker


class Job(NamedTuple):
    """A record to serve. Its answers are void once `home` is lost, and it may start only if `home` says so."""

    home: Tracker
    offset: int
    event: Event

    @property
    def may_start(self) -> bool:
        """Whether a restart would know that it is finished."""
        return self.home.may_start(self.offset)


class Answer(NamedTuple):
    """Outputs for a job, each with its index over all outputs of that job, and whether the job is finished with it."""

    job: Job
    outputs: tuple[tuple[int, Output], ...]
    last: bool


Publish = Callable[[Sequence[Answer]], None]


class Work(Protocol):
    """Serves jobs in an event loop of its own thread; all its methods are called there.

    `pins`: the class of event whose last record in each partition is given first after every assignment. `copies_to`:
    the topic that RunFinished goes on to. Beyond `most_unfinished` no more records are read.
    """

    @property
    def name(self) -> StageName: ...
    @property
    def pins(self) -> type[Event] | None: ...
    @property
    def copies_to(self) -> Topic: ...
    @property
    def most_unfinished(self) -> int: ...

    async def run(self, publish: Publish) -> None:
        """Serve until cancelled; every answer goes to `publish`."""
        ...

    def take(self, jobs: Sequence[Job]) -> None:
        """More to do, in order within each partition."""
        ...

    def drop(self) -> None:
        """Forget all jobs: their partitions are another's now, or come again."""
        ...
