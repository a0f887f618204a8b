"""What the batch settings of a ROLL agentic configuration amount to: for moving one here."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from pipeline.config.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AgenticBatch:
    """ROLL's settings: sizes count trajectories; a batch size that is not positive has no bound. `max_traj_per_env`
    and `envs_per_worker` below 1 are worked out. ConfigError where ROLL would not start."""

    env_groups: int
    group_size: int
    batch_size: int
    val_env_groups: int
    val_group_size: int
    val_batch_size: int
    async_ratio: int = 0
    redundancy: int = 0
    max_traj_per_env: int = -1
    envs_per_worker: int = 0

    def __post_init__(self) -> None:
        if self.batch_size > 0 and self.batch_size % self.group_size:
            raise _error("batch_size", self.batch_size, f"a multiple of group_size {self.group_size}")
        together = self.val_env_groups * self.val_group_size
        if self.val_batch_size > 0 and (self.val_batch_size % self.val_group_size or self.val_batch_size % together):
            raise _error("val_batch_size", self.val_batch_size, f"a multiple of the {together} environments")
        if 0 <= self.max_traj_per_env < self._needed():
            raise _error("max_traj_per_env", self.max_traj_per_env, f"at least {self._needed()}, to fill a batch")

    @property
    def responses(self) -> int:
        """Responses begun for a group: `group_size + redundancy` here."""
        return self.group_size + self.redundancy

    @property
    def environments(self) -> int:
        """Trajectories under way at once."""
        return self.env_groups * self.responses

    @property
    def per_worker(self) -> int:
        """Environments of one worker."""
        return self.envs_per_worker if self.envs_per_worker > 0 else self.environments

    @property
    def workers(self) -> int:
        """Workers for all environments."""
        return ceil(self.environments / self.per_worker)

    @property
    def episodes(self) -> int:
        """Groups that each group of environments begins in a step; 0: on demand."""
        return self._needed() if self.async_ratio > 0 or self.max_traj_per_env < 0 else self.max_traj_per_env

    @property
    def val_episodes(self) -> int | None:
        """The same in validation; None: no bound."""
        if self.val_batch_size <= 0:
            return None
        return ceil(self.val_batch_size / (self.val_env_groups * self.val_group_size))

    def open_after(self, step: int) -> int:
        """Open groups of each group of environments after this step, if none is finished: those older than
        `async_ratio` steps are given up."""
        first = self.episodes * (self.async_ratio + 1)
        return self.episodes * min(step, self.async_ratio + 1) + (first if step <= self.async_ratio else 0)

    def _needed(self) -> int:
        return max(ceil(self.batch_size / (self.env_groups * self.group_size)), 0)


def _error(setting: str, value: int, expected: str) -> ConfigError:
    return ConfigError.of("roll_batch", f"is {value}; expected {expected}", (setting,))
