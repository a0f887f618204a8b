"""What the trainer tells its health check: since when something waits to be committed, or to come back from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.training import Policy
from pipeline.health import COMMIT_WITHIN_S, Heartbeat, Standing, problems
from pipeline.log.seat import Entry, Fact, Position
from pipeline.training.trainer import Trainer
from pipeline.training.work import Done
from tests.domain.given import rules

POLICY = Policy(0, "policy-0", "0" * 64)


class Ledger:
    """A seat on a ledger in memory. While `held`, what is committed can't be read back."""

    turn, held = 1, True

    def __init__(self) -> None:
        self.written: list[e.Event] = []
        self.read = 0

    def poll(self, timeout_s: float) -> list[Entry]:
        if self.held:
            return []
        start, self.read = self.read, len(self.written)
        return [Entry(offset, self.written[offset]) for offset in range(start, self.read)]

    def restore(self) -> tuple[Position, list[Entry]]:
        return Position(0, {}), []

    def commit(self, facts: Sequence[Fact], position: Position) -> None:
        self.written += [fact.event for fact in facts]

    def standing(self, behind_since: float | None) -> Standing:
        return Standing("trainer", 1, True, behind_since)

    def now_ms(self) -> int:
        return 0


class Writes:
    """Work whose files are at once there."""

    def do(self, action: Any, state: Any) -> Done:
        return Done(action, policy=POLICY, checkpoint=POLICY)

    def stop(self) -> None:
        return None


def test_a_trainer_whose_records_do_not_come_back_is_not_well(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now, told, ledger = [0.0], list[Standing](), Ledger()
    monkeypatch.setattr("pipeline.training.trainer.time.monotonic", lambda: now[0])
    heart = Heartbeat(str(tmp_path / "alive"))

    def beat(standing: Standing) -> None:
        told.append(standing)
        heart(standing)
        now[0] += 2.0  # more than the heartbeat's own interval, so that each is written

    trainer: Any = Trainer(rules(), ledger, Writes(), "slot", beat)  # type: ignore[arg-type]

    def serve(until: Any) -> None:
        """Turn until it is so; the trainer stops its executor, so one more is made for the next time."""
        trainer.serve(lambda: until() or now[0] > 10_000)
        assert until(), told[-3:]
        trainer._executor = type(trainer._executor)(1)

    serve(lambda: bool(ledger.written))
    written_at = now[0]
    serve(lambda: now[0] > written_at + COMMIT_WITHIN_S + 10)
    assert [type(event) for event in ledger.written] == [e.CheckpointSaved, e.TrainerStarted]
    (problem,) = problems(str(tmp_path / "alive"), now[0])
    assert problem.startswith("trainer: nothing has been committed for")
    ledger.held = False
    serve(lambda: told[-1].behind_since is None)
    assert problems(str(tmp_path / "alive"), now[0]) == []
