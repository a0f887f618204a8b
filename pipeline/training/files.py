"""Policy and checkpoint files: written under a fresh name, made durable, and named by the ledger or by nobody.

Paths in events are relative to the run's folder, which trainer and generators share (`TAMIS_DATA_DIR/<run>`).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from pipeline.domain.training import Policy


class FileMissing(Exception):
    """A file that the ledger names is gone, isn't what was written, or can't be loaded."""


class RunFiles:
    """The files of one run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def adopt(self, other: RunFiles, policy: Policy) -> Policy:
        """A copy of another run's checkpoint; durable on return. Raises FileMissing, with nothing left here."""
        source = other.there(policy)
        copied = self.write("checkpoints", policy.version, 0, lambda path: shutil.copyfile(source, path))
        if copied.sha256 != policy.sha256:
            self.drop(copied)
            raise _changed(source, policy, copied.sha256)
        return copied

    def drop(self, policy: Policy) -> None:
        """Delete a file that nothing names."""
        (self.root / policy.path).unlink(missing_ok=True)

    def write(self, kind: str, version: int, incarnation: int, write: Callable[[Path], object]) -> Policy:
        """Have `write` fill a file that doesn't exist yet; durable on return. `kind`: policies or checkpoints."""
        relative = f"{kind}/v{version:06d}-i{incarnation}-{secrets.token_hex(4)}.bin"
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        _sync(path)
        _sync(path.parent)
        return Policy(version, relative, sha256_of(path))

    def checked(self, policy: Policy) -> Path:
        """The file of a policy or checkpoint, if it is what the ledger says. Raises FileMissing."""
        path = self.there(policy)
        found = sha256_of(path)
        if found != policy.sha256:
            raise _changed(path, policy, found)
        return path

    def there(self, policy: Policy) -> Path:
        """The file of a policy or checkpoint, unread. Raises FileMissing."""
        path = self.root / policy.path
        if not path.is_file():
            raise FileMissing(
                f"{policy.path} (version {policy.version}) is not under {self.root}; trainer and generators must share "
                "one folder: check TAMIS_DATA_DIR"
            )
        return path

    def prune_policies(self, disposable: Callable[[int, str], bool]) -> None:
        """Delete the policy files, leftovers of a crash included, of which `disposable(version, path)` says so."""
        for path in sorted((self.root / "policies").glob("v*-i*-*.bin")):
            version = int(path.name[1 : path.name.index("-")])
            if disposable(version, f"policies/{path.name}"):
                path.unlink(missing_ok=True)


def _changed(path: Path, policy: Policy, found: str) -> FileMissing:
    return FileMissing(
        f"{path} (version {policy.version}) has SHA-256 {found[:12]}…, the ledger says {policy.sha256[:12]}…: "
        "it was changed or damaged; restore it from a copy, or start a new run"
    )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
