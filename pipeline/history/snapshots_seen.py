"""How old and how large the newest snapshots of a run's stages are. A part of the run's view."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.domain import events as e


@dataclass(slots=True)
class Seen:
    """A stage-partition's newest snapshot, as far as its chunks have come; `at_ms` is when its first was written."""

    snapshot_id: str
    at_ms: int
    size: int = 0


@dataclass(slots=True)
class SnapshotsSeen:
    """The newest snapshot by stage and partition."""

    found: dict[tuple[str, int], Seen] = field(default_factory=dict)

    def note(self, at_ms: int, event: e.SnapshotChunk) -> None:
        """Take a chunk."""
        place = (event.stage, event.partition)
        seen = self.found.get(place)
        if seen is None or seen.snapshot_id != event.snapshot_id:
            seen = self.found[place] = Seen(event.snapshot_id, at_ms)
        seen.size += len(event.body)

    def ages_s(self, now_ms: int) -> dict[str, float]:
        """The age of the oldest, by stage, in seconds."""
        ages: dict[str, float] = {}
        for (stage, _), seen in self.found.items():
            ages[stage] = max(ages.get(stage, 0.0), (now_ms - seen.at_ms) / 1000)
        return ages

    def sizes(self) -> dict[str, int]:
        """Bytes of all of a stage's."""
        sizes: dict[str, int] = {}
        for (stage, _), seen in self.found.items():
            sizes[stage] = sizes.get(stage, 0) + seen.size
        return sizes
