"""A checkpoint of another run is copied whole, or nothing is left of it."""

from pathlib import Path

import pytest

from pipeline.domain.training import Policy
from pipeline.training.files import FileMissing, RunFiles, sha256_of


@pytest.fixture
def old(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path / "new")


def test_an_adopted_checkpoint_is_a_file_of_its_own(old: RunFiles, new: RunFiles) -> None:
    saved = old.write("checkpoints", 4, 2, lambda path: path.write_bytes(b"weights"))
    copied, again = new.adopt(old, saved), new.adopt(old, saved)
    old.drop(saved)
    assert (copied.version, copied.sha256) == (4, saved.sha256)
    assert copied.path.startswith("checkpoints/v000004-i0-") and copied.path != again.path
    assert new.checked(copied).read_bytes() == b"weights" and sha256_of(new.root / again.path) == saved.sha256


@pytest.mark.parametrize(("sha256", "said"), [("0" * 64, "it was changed or damaged"), (None, "is not under")])
def test_of_a_checkpoint_that_is_not_as_named_nothing_is_left(
    sha256: str | None, said: str, old: RunFiles, new: RunFiles
) -> None:
    if sha256:
        saved = old.write("checkpoints", 4, 2, lambda path: path.write_bytes(b"weights"))
    else:
        saved = Policy(4, "checkpoints/gone.bin", "0" * 64)
    with pytest.raises(FileMissing, match=said) as refused:
        new.adopt(old, Policy(4, saved.path, sha256 or saved.sha256))
    assert saved.path in str(refused.value)
    assert list(new.root.rglob("*.bin")) == []
