"""Policies in files: which one a prompt needs, and getting it into the engine."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.domain.events import EvalRef, PolicyPublished
from pipeline.domain.told import told_error
from pipeline.log.backoff import Backoff
from pipeline.log.errors import fork_of
from pipeline.sdk import Engine
from pipeline.user_code import contained, is_told_to_end

ATTEMPTS: Final = 4


class Policy(NamedTuple):
    """A policy file, `path` under the run's folder."""

    version: int
    path: str
    sha256: str


def policy_of(named: PolicyPublished | EvalRef) -> Policy:
    """The policy that an event names."""
    return Policy(named.version, named.path, named.sha256)


class Unusable(Exception):
    """A policy that can't be loaded. `gone`: its file is not there, as happens to superseded ones."""

    def __init__(self, detail: str, gone: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.gone = gone


async def load(engine: Engine, folder: Path, policy: Policy) -> None:
    """Check the file in the run's folder, then have the engine load it, with a few tries. Raises Unusable."""
    file = folder / policy.path
    backoff = Backoff()
    for attempt in range(1, ATTEMPTS + 1):
        await asyncio.to_thread(_check, file, policy)
        try:
            return await contained(lambda: engine.load_policy(file, policy.version))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_told_to_end():
                raise
            if attempt == ATTEMPTS:
                detail = f"the engine can't load policy {policy.version} from {file}: {told_error(error)}"
                raise Unusable(f"{detail}; mend the engine, then go on in a new run: {fork_of(folder.name)}") from error
        await backoff.wait()


def _check(file: Path, policy: Policy) -> None:
    try:
        with file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except FileNotFoundError:
        raise Unusable(f"the file of policy {policy.version} is gone: {file}", gone=True) from None
    except OSError as error:
        raise Unusable(f"the file of policy {policy.version} can't be read: {error}; mend the folder") from error
    if found != policy.sha256:
        raise Unusable(
            f"policy {policy.version}, {file}, has SHA-256 {found}, expected {policy.sha256}: "
            "see that generators and trainer share one folder, and restore the file"
        )
