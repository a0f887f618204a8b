"""The golden bytes: `golden/<event>/v<N>.<full|bare>.bin`, and what they mean in the `.json` beside.

    python -m tests.log.golden

writes those that are missing. One that is there is never rewritten: each later release has to read it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.domain.events import EVENTS
from pipeline.log.codec import encode, to_json
from pipeline.log.schemas import folder_of, versions
from tests.log.samples import bare, full

FOLDER = Path(__file__).parent / "golden"
KINDS = {"full": full, "bare": bare}


def newest() -> dict[str, int]:
    """The newest version of each event."""
    return {version.event: version.version for version in versions() if version.event in EVENTS}


def path_of(event: str, version: int, kind: str, end: str) -> Path:
    """Where a golden file is."""
    return FOLDER / folder_of(event) / f"v{version}.{kind}.{end}"


def write_missing() -> None:
    for event, version in newest().items():
        for kind, sample in KINDS.items():
            path = path_of(event, version, kind, "bin")
            if not path.exists():
                value: Any = sample(EVENTS[event])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(encode(value))
                meaning = json.dumps(to_json(value), indent=2, ensure_ascii=True)
                path_of(event, version, kind, "json").write_text(meaning + "\n")


if __name__ == "__main__":
    write_missing()
