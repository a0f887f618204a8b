"""Who brings facts into the log: generators and scorers, with everything that can go wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DiscardReason, Failure, FinishReason, Grading, Purpose

from .log import Damaged
from .settings import MAX_PAYLOAD
from .world import World

Prompt = e.PromptIssued | e.ResponsesRequested


@dataclass(slots=True)
class Wish:
    """A response to sample: of the prompt record at `offset`."""

    offset: int
    prompt: Prompt
    slot: int
    round: int


class Generator:
    """Reads its partition of prompts to the end, samples in any order, and publishes what is finished. Committed are
    the offsets of the records that are done."""

    def __init__(self, world: World, partition: int) -> None:
        self.world = world
        self.partition = partition
        self.name = f"generator/{partition}"
        self.input = world.log.topics[Topic.PROMPTS][partition]
        self.done: dict[int, None] = {}
        self.copied = False
        self.crash()

    def crash(self) -> None:
        self.read = 0
        self.wishes: list[Wish] = []
        self.left: dict[int, int] = {}
        self.policies: list[e.PolicyPublished] = []
        self.loaded: e.PolicyPublished | None = None
        self.finished: e.RunFinished | None = None

    def ready(self) -> bool:
        return self.read < len(self.input) or bool(self.wishes) or (self.finished is not None and not self.copied)

    def turn(self) -> None:
        world = self.world
        for _ in range(world.rng.randint(1, 8)):
            if self.read < len(self.input):
                self._take(self.read, self.input[self.read].event)
                self.read += 1
        finished: list[e.ResponseGenerated] = []
        closed: list[Wish] = []
        for _ in range(world.rng.randint(0, 5)):
            wish = self._next()
            if wish is None:
                break
            closed.append(wish)
            self.wishes.remove(wish)
            if world.chance(world.chaos.silent):
                world.say(f"!! {wish.prompt.group_id}/{wish.slot}.{wish.round} is never answered")
                continue
            answer = self._sample(wish)
            if answer is None:
                continue
            finished.append(answer)
            if world.chance(world.chaos.duplicate):
                finished.append(self._sample(wish) or answer)
            if world.chance(world.chaos.foreign):
                finished.append(self._foreign(wish))
        if world.crashes(self, "with payloads written and not published"):
            return
        world.log.facts(Topic.RESPONSES, self.partition, finished, "generator")
        for wish in closed:
            self._one_done(wish.offset)
        if world.crashes(self, "after publishing"):
            return
        if self.finished is not None and self.read == len(self.input) and not self.wishes and not self.copied:
            world.log.facts(Topic.RESPONSES, self.partition, [self.finished], "generator")
            self.copied = True

    def _take(self, offset: int, event: e.Event) -> None:
        match event:
            case e.PolicyPublished():
                self.policies.append(event)
            case e.GroupClosed():
                for wish in [w for w in self.wishes if w.prompt.group_id == event.group_id]:
                    self.wishes.remove(wish)
                    self._one_done(wish.offset)
            case e.RunFinished():
                self.finished = event
            case e.PromptIssued() if offset not in self.done:
                self._wish(offset, event, [e.SlotRound(s, 1) for s in range(event.group_size + event.redundancy)])
            case e.ResponsesRequested() if offset not in self.done:
                held = [(w.slot, w.round) for w in self.wishes if w.prompt.group_id == event.group_id]
                self._wish(offset, event, [s for s in event.slots if (s.slot, s.round) not in held])
            case _:
                return

    def _wish(self, offset: int, prompt: Prompt, slots: list[e.SlotRound]) -> None:
        self.left[offset] = len(slots)
        self.wishes += [Wish(offset, prompt, s.slot, s.round) for s in slots]
        if not slots:
            self.done[offset] = None

    def _one_done(self, offset: int) -> None:
        self.left[offset] -= 1
        if self.left[offset] == 0:
            self.done[offset] = None

    def _next(self) -> Wish | None:
        """Evaluation prompts first; else any."""
        if not self.wishes:
            return None
        first = [w for w in self.wishes if w.prompt.purpose is Purpose.EVAL]
        return self.world.rng.choice(first or self.wishes)

    def _version(self, prompt: Prompt) -> int | None:
        """The policy to sample with; None where nobody can want the answer any more."""
        if prompt.eval is not None:
            if prompt.eval.path in self.world.policies:
                return prompt.eval.version
            if self._is_live(prompt.group_id):
                self.world.violation(
                    f"policy {prompt.eval.path} is gone, but {prompt.group_id} is to be answered by it"
                )
            return None
        if self.loaded is None or self.loaded.version < prompt.min_version or self.world.rng.random() < 0.3:
            self._load()
        if self.loaded is None or self.loaded.version < prompt.min_version:
            self.world.violation(f"{prompt.group_id} asks for version {prompt.min_version}, which can't be loaded")
            return None
        return self.loaded.version

    def _load(self) -> None:
        """The newest policy read; if its file is gone there is a newer one to read."""
        while self.policies[-1].path not in self.world.policies:
            if self.read == len(self.input):
                self.world.violation(f"the newest policy {self.policies[-1].path} is gone")
                return
            self._take(self.read, self.input[self.read].event)
            self.read += 1
        self.loaded = self.policies[-1]

    def _is_live(self, gid: str) -> bool:
        life = self.world.ledger.groups.get(gid)
        return life is not None and life.ending is None

    def _sample(self, wish: Wish) -> e.ResponseGenerated | None:
        version = self._version(wish.prompt)
        if version is None:
            return None
        rng, gid = self.world.rng, wish.prompt.group_id
        failure = rng.choice(list(Failure)[:5]) if self.world.chance(self.world.chaos.failed) else None
        written = failure is None or (failure is not Failure.TOO_LONG and rng.random() < 0.5)
        key = self.world.payloads.write(gid, wish.slot, wish.round) if written else None
        size = MAX_PAYLOAD if self.world.chance(self.world.setup.huge_payload) else rng.randint(50, 100)
        return _generated(wish, gid, key, size if written else 0, failure, version, self.world.now)

    def _foreign(self, wish: Wish) -> e.ResponseGenerated:
        """A response under an id that this partition doesn't know."""
        key = self.world.payloads.write(wish.prompt.group_id, wish.slot, wish.round)
        n = wish.prompt.group_id.split("@")[0]
        gid = self.world.rng.choice((f"g{n}-0", f"{n}", f"999999@{self.partition}", f"{n}@{self.partition + 1}", ""))
        return _generated(wish, gid, key, 60, None, wish.prompt.min_version, self.world.now)


def _generated(
    wish: Wish, gid: str, key: str | None, size: int, failure: Failure | None, version: int, at: int
) -> e.ResponseGenerated:
    finish = FinishReason.STOP if failure is None else FinishReason.ABORT
    return e.ResponseGenerated(
        gid, wish.slot, wish.round, wish.prompt.purpose, key, size, min(size, 10), failure, None, finish, 7, 20,
        version, version, 0.5, None, False, False, False, 3, "sim", at,
    )  # fmt: skip


class Scorer:
    """Judges the responses of a partition in any order, a few at once. Committed are the offsets that are done."""

    CONCURRENCY = 8

    def __init__(self, world: World, partition: int) -> None:
        self.world = world
        self.partition = partition
        self.name = f"scorer/{partition}"
        self.input = world.log.topics[Topic.RESPONSES][partition]
        self.done: dict[int, None] = {}
        self.low = 0
        self.constant: dict[str, float | None] = {}
        self.failed = False

    def crash(self) -> None:
        """Nothing is held but calls under way, which are made again."""

    def ready(self) -> bool:
        return self.low < len(self.input)

    def turn(self) -> None:
        world = self.world
        window = [o for o in range(self.low, min(self.low + self.CONCURRENCY, len(self.input))) if o not in self.done]
        plain = [o for o in window if not isinstance(self.input[o].event, e.RunFinished)]
        chosen = world.rng.sample(plain, min(len(plain), world.rng.randint(1, 4))) if plain else window[:1]
        scored: list[e.Event] = []
        for offset in chosen:
            event = self.input[offset].event
            if isinstance(event, e.ResponseGenerated):
                scored.append(self._score(event))
            elif isinstance(event, e.RunFinished):
                scored.append(event)
            else:
                assert isinstance(event, Damaged)
        if world.crashes(self, "before its transaction"):
            return
        world.log.facts(Topic.ROLLOUTS, self.partition, scored, "scorer")
        if world.setup.failing == "scorer" and world.turns >= world.setup.fail_at and not self.failed:
            self.failed = True
            world.log.facts(Topic.LEDGER, 0, [e.StageFailed("scorer", None, "verifier says no", world.now)], "scorer")
        for offset in chosen:
            self.done[offset] = None
        while self.low in self.done:
            del self.done[self.low]
            self.low += 1

    def _score(self, response: e.ResponseGenerated) -> e.ResponseScored:
        world, chaos = self.world, self.world.chaos
        failure, key = response.failure, response.payload_key
        if failure is None and key is not None and key not in world.payloads.keys:
            failure = Failure.PAYLOAD_EXPIRED
            life = world.ledger.groups.get(response.group_id)
            if key not in world.payloads.lost and life is not None and life.ending is None:
                world.violation(f"I4 payload {key} of a live group is gone before it was scored")
        reward: float | None = self._reward(response.group_id)
        grading, discard = Grading.GRADED, None
        if failure is not None:
            reward, grading, discard = None, Grading.FAILED, DiscardReason.FAILED
        elif world.setup.outage or world.chance(chaos.ungraded):
            zero = world.setup.outage == "zero" or (not world.setup.outage and world.rng.random() < 0.3)
            reward, grading = (0.0, Grading.UNGRADED) if zero else (None, Grading.UNGRADED)
            discard = None if zero else DiscardReason.FAILED
        elif world.chance(chaos.filtered) and response.purpose is Purpose.TRAIN:
            discard = DiscardReason.FILTERED
        elif world.chance(chaos.non_finite):
            reward = world.rng.choice((nan, inf, -inf))
        r = response
        return e.ResponseScored(
            r.group_id, r.slot, r.round, key, r.payload_bytes, discard, reward, 0.0, reward, {}, grading, failure, None,
            1, 5, r.finish_reason, r.prompt_tokens, r.response_tokens, r.oldest_version, r.newest_version, r.entropy,
            False, False, False, r.generator, None, world.now,
        )  # fmt: skip

    def _reward(self, gid: str) -> float:
        """Of a constant group always the same; else drawn, so that two members rarely agree."""
        if gid not in self.constant:
            values = (0.0, 1.0, 0.1)
            self.constant[gid] = self.world.rng.choice(values) if self.world.chance(self.world.chaos.constant) else None
        fixed = self.constant[gid]
        return fixed if fixed is not None else self.world.rng.random()


class Person:
    """The command line: asks the run to stop, once."""

    name = "person"

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked = False

    def crash(self) -> None:
        """Nothing to lose."""

    def ready(self) -> bool:
        return 0 <= self.world.setup.stop_at <= self.world.turns and not self.asked

    def turn(self) -> None:
        self.asked = True
        self.world.log.facts(Topic.LEDGER, 0, [e.StopRequested("a person", self.world.now)], "person")
