"""python -m tests.conformance PATH…: run files of vectors, or every one in a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .runner import known, run_file

COMMITTED = Path(__file__).parent / "vectors"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, default=[COMMITTED], metavar="PATH")
    parser.add_argument(
        "--family",
        choices=sorted(known()),
        help="default: what the file tells by `family`, the kinds of its cases, or its name",
    )
    args = parser.parse_args()
    files = [file for path in args.paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    bad = not files
    for file in files:
        try:
            result = run_file(file, args.family)
        except (KeyError, ValueError, OSError) as error:
            print(f"{file.stem}: {error}", file=sys.stderr)
            bad = True
            continue
        print("\n".join(result.lines()))
        bad |= bool(result.mismatches) or not result.total
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
