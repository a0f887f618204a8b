"""The process in which an answer is compared with the target, by math-verify. Its parent limits the time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from math_verify import parse, verify  # type: ignore[import-untyped, import-not-found, unused-ignore]

from pipeline.verifiers.answers import marked, plain, same_number
from pipeline.verifiers.child import serve


def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """`value` and what was taken for the answer; or `misconfigured`, if the target is nothing to compare with."""
    target, text = plain(request["target"]), plain(request["text"])
    given = marked(text)
    if same_number(given, marked(target) or target):
        return {"value": 1.0, "answer": given}
    wanted = parse(target if "\\boxed" in target else rf"\boxed{{{target}}}", parsing_timeout=None)
    if not wanted:
        return {"misconfigured": f"nothing can be read from the target {request['target']!r:.80}; mend its row"}
    found = parse(text, parsing_timeout=None)
    right = bool(found) and bool(verify(wanted, found, timeout_seconds=None))
    taken = next((item for item in found if isinstance(item, str)), None)
    return {"value": float(right), "answer": given if given is not None else taken}


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # math-verify warns that its own time limit is off
    answer({"target": "(x+1)^2", "text": r"\boxed{x^2+2x+1}"})  # loads what is loaded at first use, before any fork
    serve(answer)
