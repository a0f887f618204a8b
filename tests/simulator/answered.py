"""What answers a training group that ended unused: by its policy, with a seed of its own, as often as is allowed; and
why there is no answer. Read from the ledger alone."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain import events as e
from pipeline.domain.issuing import SOLVED
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Purpose, WaiverReason

from .log import Cause, Record
from .settings import LARGE
from .world import World


class Answers:
    """`drawn` is the last place that was drawn, by domain; `solved` the offset of the verdict, by prompt."""

    def __init__(self, world: World) -> None:
        self.rules, self.finite = world.rules, world.setup.prompts < LARGE
        self.ledger = world.log.topics[Topic.LEDGER][0]
        self.opened: dict[str, e.GroupOpened] = {}
        self.rejected: dict[str, bool] = {}
        self.drawn: dict[str, tuple[int, int]] = {}
        self.solved: dict[str, int] = {}
        self.seeds: dict[int, str] = {}
        self.closed_by = [r.cause for r in self.ledger if isinstance(r.event, e.RunClosing)]

    def problems(self) -> Iterator[str]:
        """Whatever is wrong with an answer."""
        for offset, record in enumerate(self.ledger):
            match record.event:
                case e.GroupOpened() as event:
                    yield from self._on_opened(event, _read_up_to(record))
                case e.PromptSkipped() as event:
                    yield from self._on_skipped(event, _read_up_to(record))
                case e.GroupRejected() as event:
                    self.rejected.setdefault(event.group_id, True)
                    self._on_verdict(event.group_id, event.scores, offset)
                case e.GroupAccepted() as event:
                    self.rejected[event.group_id] = False
                    self._on_verdict(event.group_id, event.scores, offset)
                case e.ReplacementWaived() as event:
                    yield from self._on_waived(event, record)
                case _:
                    continue

    def _on_verdict(self, gid: str, scores: e.Scores | None, offset: int) -> None:
        least = self.rules.exclude_above_pass_rate
        if least is not None and scores is not None and scores.reward_mean is not None and scores.reward_mean >= least:
            self.solved.setdefault(self.opened[gid].prompt.id, offset)

    def _on_opened(self, event: e.GroupOpened, read: int) -> Iterator[str]:
        gid = event.group_id
        self.opened[gid] = event
        if event.seed in self.seeds:
            yield f"group {gid} has the seed of group {self.seeds[event.seed]}"
        self.seeds[event.seed] = gid
        if event.purpose is Purpose.EVAL:
            return
        most = self.rules.max_attempts
        if most and event.attempt > most:
            yield f"I3 group {gid} is attempt {event.attempt} of {most}"
        if event.replaces is not None and self._policy(event.replaces) != "next_prompt":
            if event.prompt != self.opened[event.replaces].prompt:
                yield f"I3 group {gid} answers {event.replaces} by {event.prompt}, expected the same prompt"
            return
        if self.solved.get(event.prompt.id, LARGE) <= read:
            yield f"group {gid} is of a solved prompt, {event.prompt}"
        yield from self._draw(event.prompt, f"group {gid}")

    def _policy(self, gid: str) -> str:
        return self.rules.replacement if self.rejected.get(gid) else self.rules.expired_replacement

    def _on_skipped(self, event: e.PromptSkipped, read: int) -> Iterator[str]:
        if event.detail.startswith(SOLVED) and self.solved.get(event.prompt.id, LARGE) > read:
            yield f"prompt {event.prompt} is left out as solved, and isn't"
        yield from self._draw(event.prompt, "a prompt that was skipped")

    def _draw(self, prompt: e.PromptRef, who: str) -> Iterator[str]:
        place = (prompt.epoch, prompt.ordinal)
        if place <= self.drawn.get(prompt.domain, (-1, -1)):
            yield f"I3 {who} is of {prompt}, which was drawn before; expected the next prompt"
        self.drawn[prompt.domain] = max(place, self.drawn.get(prompt.domain, place))

    def _on_waived(self, event: e.ReplacementWaived, record: Record) -> Iterator[str]:
        attempt, most = self.opened[event.group_id].attempt, self.rules.max_attempts
        ends = [c.offset for c in self.closed_by if isinstance(c, Cause)]
        closing = ends != [] and ends[0] < _read_up_to(record)
        right = {
            WaiverReason.RUN_COMPLETE: closing or ends[:1] == [_read_up_to(record)],
            WaiverReason.SOURCE_EXHAUSTED: self.finite and not closing,
            WaiverReason.SURPLUS: not closing,
            WaiverReason.ATTEMPTS_EXHAUSTED: attempt == most and not closing,
        }
        if not right[event.reason]:
            yield f"I3 {event.group_id}, attempt {attempt} of {most}, gets no replacement: {event.reason}"


def _read_up_to(record: Record) -> int:
    """The offset that its stage answered by this record."""
    assert isinstance(record.cause, Cause)
    return record.cause.offset
