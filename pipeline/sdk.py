"""The ports that users implement: engine, environment, verifier, prompt source, learner; and the types of their own
filters, predicates of single responses, and selectors.

Each is named in the configuration by a dotted path (`module:factory`) and built once in the process that needs it.
Nothing here imports Kafka, Redis or torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from typing_extensions import Buffer

from pipeline.domain.events import Member as Member
from pipeline.domain.filters.custom import Filter as Filter
from pipeline.domain.filters.custom import Opinion as Opinion
from pipeline.domain.selection.custom import Candidate as Candidate
from pipeline.domain.selection.custom import Selector as Selector

FinishReason = Literal["stop", "length", "abort"]
Failure = Literal["timeout", "env_failed", "aborted", "empty", "too_long", "payload_expired"]


@dataclass(frozen=True, slots=True)
class VerifierBinding:
    """Which verifier judges a response to this prompt, against what, and how much its score weighs."""

    name: str
    target: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """What there is to do for one prompt, as the source renders it. Travels as opaque bytes."""

    id: str
    text: str
    token_ids: tuple[int, ...]
    verifiers: tuple[VerifierBinding, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class PromptSource(Protocol):
    """A finite, ordered set of prompts per domain. Deterministic: the same arguments give the same task for ever."""

    content_hash: str
    """SHA-256 (hex) of everything that decides what `at` returns; it is written into RunStarted."""

    def domains(self) -> Sequence[str]:
        """The domains that this source has prompts for."""
        ...

    def size(self, domain: str) -> int:
        """Prompts in one pass (epoch) of a domain."""
        ...

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        """The task at a place in the order, `0 <= ordinal < size(domain)`; each epoch may have its own order."""
        ...


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One response to sample. `seed` is fixed by group, slot and round, so a slot done again asks the same question;
    `group_seed` is the same for all members of a group: that of its prompt, or with `replacement: new_seed` its own."""

    response_id: str
    text: str
    token_ids: tuple[int, ...]
    seed: int
    greedy: bool
    metadata: Mapping[str, Any]
    group_seed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """What an engine answers. Lengths of `token_ids`, `logprobs` and `loss_mask` agree.

    token_ids: int32 or int64 ids of the response; logprobs: float32 log-probabilities under the sampling policy, <= 0
    (None: the engine gives none, and nothing can be trained on it);
    loss_mask: 1 where a token was sampled by the policy, 0 where an environment wrote it (None: all ones).
    version_spans: (start, end, policy version) in token positions; None: the whole response is of the loaded version.
    env_reward: an environment's own reward, finite; drop_flag, env_timeout, env_failed: the response can't be learned
    from, as the filter drop_flag looks for.
    Sequences and buffers (array.array, numpy, memoryview) are both taken; buffers are not copied token by token.
    """

    token_ids: Sequence[int] | Buffer
    logprobs: Sequence[float] | Buffer | None
    text: str
    finish_reason: FinishReason = "stop"
    loss_mask: Sequence[int] | Buffer | None = None
    version_spans: tuple[tuple[int, int, int], ...] | None = None
    entropy: float | None = None
    failed: Failure | None = None
    detail: str | None = None
    env_reward: float | None = None
    drop_flag: bool = False
    env_timeout: bool = False
    env_failed: bool = False


class Engine(Protocol):
    """Samples responses. `batch` requests at most go into one call; `concurrency` calls may be under way at once.

    A server with continuous batching has batch 1 and a high concurrency; an in-process model the opposite. An
    exception fails all requests of its call, each with the reason `env_failed` (`aborted` for a cancellation that the
    engine raises itself). A call is cancelled when nobody waits for any of its answers.

    An engine with an attribute `refreshes` that is True can load a policy while requests are under way (configuration
    `publication: refresh`): its samples then say by `version_spans` which policy each token is of.
    """

    batch: int
    concurrency: int

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Sample]:
        """One Sample for each request, in order."""
        ...

    async def load_policy(self, path: Path, version: int) -> None:
        """Called while no request is under way, unless it refreshes; all later samples are of this version."""
        ...


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """An episode to begin. `seed` decides its start: members of a group have the same. It belongs to the prompt, and is
    another in each pass; with `replacement: new_seed` it is the group's own. Each evaluation plays the same starts.
    `text`, `token_ids` and `metadata` are the task's."""

    response_id: str
    text: str
    token_ids: tuple[int, ...]
    seed: int
    evaluation: bool
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the policy said in a turn, as an environment gets it; `length`: it was cut off."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class Observation:
    """What an environment writes: before the first turn, and after each. The policy reads `token_ids` next and is never
    trained on them; turns with nothing written between them are one segment of the loss mask.

    reward: of the turn before, finite; an episode's reward is their sum. done: the episode is over. drop: nothing can
    be learned from it; it is masked out and flagged (drop_flag).
    """

    token_ids: Sequence[int] = ()
    text: str = ""
    reward: float = 0.0
    done: bool = False
    drop: bool = False


class Episode(Protocol):
    """One episode under way."""

    opening: Observation
    """What the environment writes after the prompt, before the first turn; it may be empty."""

    async def step(self, turn: Turn) -> Observation:
        """The environment's answer to what the policy sampled."""
        ...

    async def close(self) -> None:
        """Called once at the end, however it ended; by then nobody waits."""
        ...


class Environment(Protocol):
    """Plays episodes of several turns with an engine, `concurrency` of them at once.

    An exception, or an Observation that can't be right, makes the episode fail as `env_failed`; a call that takes over
    `environment.step_timeout`, or an episode over `environment.episode_timeout`, as `timeout`. Work that blocks belongs
    into a thread (asyncio.to_thread).
    """

    concurrency: int

    async def start(self, request: EpisodeRequest) -> Episode:
        """A new episode. The same seed and task must give the same start."""
        ...


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """One response to judge: its text, the target its binding names, and the task's metadata."""

    response_id: str
    text: str
    target: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """A verifier's answer. `value` None means that it could not judge; it never means wrong.

    outcome: `ok`, or in a word why there is no value; `misconfigured` ends the run, whatever the verifier's
    `on_failure`. detail: the same in a sentence. answer: what the verifier took for the response's answer; it is
    recorded where the response's text is. penalty: added to the value for something else than being wrong, such as
    -0.5 for an overlong answer; it is recorded by itself, so that a filter can look at the raw score without it.
    """

    value: float | None
    outcome: str = "ok"
    components: Mapping[str, float] = field(default_factory=dict)
    answer: str | None = None
    detail: str | None = None
    penalty: float = 0.0


class Misconfigured(Exception):
    """Raised by a verifier that can't judge any such response: a wrong setting, a target that nothing could equal, more
    than its context holds. It ends the run with its text as the reason, whatever the verifier's `on_failure`."""


class Verifier(Protocol):
    """Judges responses; a call may take a batch. An exception or a wrong type leaves the responses ungraded.

    A verifier that can't have more calls under way has a `max_concurrency`; one that holds processes or connections has
    a `close()` (a coroutine, if it likes), which is called when its scorer ends.
    """

    batch: int
    concurrency: int

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score | float | None]:
        """One answer for each request, in order: a Score, or just its value."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """A response as a predicate of the response filter sees it. `tokens`: its length; `reward`: None if it has none."""

    text: str
    token_ids: Sequence[int]
    tokens: int
    finish_reason: str
    reward: float | None
    metadata: Mapping[str, Any]


class Predicate(Protocol):
    """Keeps single responses out of their groups: the response is replaced."""

    def __call__(self, judged: Judged, /) -> bool:
        """True rejects."""
        ...


class Learner(Protocol):
    """Turns batches into better policies. Called from one thread, in order, never inside a transaction.

    `device` is where it wants the batch's tensors; `layout` how rows are laid out; `pad_id` fills padded rows.
    """

    device: str
    layout: Literal["padded", "packed"]
    pad_id: int

    def load(self, path: Path) -> None:
        """Restore weights, optimizer and random state from a checkpoint that `save` wrote."""
        ...

    def save(self, path: Path) -> None:
        """Write a whole checkpoint to a file that doesn't exist yet."""
        ...

    def export(self, path: Path) -> None:
        """Write the policy that engines load to a file that doesn't exist yet."""
        ...

    def train(self, batch: Any) -> Mapping[str, float]:
        """One optimizer step on a `pipeline.training.batches.Batch`; returns finite metrics. Where the run has
        `correction` or `loss`, it is by `pipeline.training.losses.objective` (docs/training.md)."""
        ...


class Tracker(Protocol):
    """Takes a run's numbers: a row for each step and each evaluation, in order. Called from one thread."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Finite numbers by name; a step may come twice, with other names."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...
