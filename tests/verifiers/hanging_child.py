"""Work of a pool for tests: it answers at once, hangs in one huge computation, raises, or ends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pipeline.verifiers.child import serve


def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    match request["do"]:
        case "hang":
            return {"digits": len(bin(7 ** (10**10)))}
        case "raise":
            raise ValueError("seven")
        case "end":
            os._exit(3)
    print("no answer, and not taken for one")
    return {"pid": os.getpid(), "back": request["do"], "secret": os.environ.get("TAMIS_REDIS_URL")}


if __name__ == "__main__":
    serve(answer)
