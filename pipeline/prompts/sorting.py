"""Sort the digits: `529143>` -> `123459`. The demo's prompts, made up from a seed.

Training and held-out prompts are told apart by a hash of the answer. By prompt, nearly every held-out answer would be
the answer to some training prompt too, and a policy that memorises answers would look like one that sorts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Literal

from pipeline.prompts.order import Order
from pipeline.sdk import Task, VerifierBinding

Split = Literal["train", "eval"]

PAD, END, ARROW = 0, 1, 12
"""Token ids; the digit d is `DIGIT + d`."""
DIGIT = 2
VOCABULARY = 13
SYMBOLS = "_$0123456789>"
"""What each token id is as text."""
HELD_OUT = 8
"""One answer in so many is held out."""


@dataclass(frozen=True, slots=True)
class SortingOptions:
    """size: prompts in one pass; digits: of each prompt; verifier: the name of the exact-match verifier."""

    split: Split = "train"
    size: int = 4096
    digits: int = 6
    domain: str = "sorting"
    verifier: str = "exact"


def tokens(digits: str) -> tuple[int, ...]:
    """The token ids of some digits."""
    return tuple(DIGIT + int(digit) for digit in digits)


def text(token_ids: Sequence[int], symbols: str = SYMBOLS) -> str:
    """The symbols up to the end token, `$`; padding is `_`."""
    return "".join(symbols[token] for token in token_ids).partition("$")[0]


def answer(digits: str) -> str:
    """The digits in ascending order."""
    return "".join(sorted(digits))


def split_of(solution: str) -> Split:
    """On which side all prompts with this answer are."""
    return "eval" if _number(f"answer/{solution}") % HELD_OUT == 0 else "train"


def prompts(seed: int, split: Split, digits: int) -> Iterator[str]:
    """Endless digit strings of one side, the same for the same arguments; they may repeat."""
    for index in count():
        drawn = f"{_number(f'prompt/{split}/{seed}/{index}') % 10**digits:0{digits}}"
        if split_of(answer(drawn)) == split:
            yield drawn


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


class SortingPrompts:
    """A PromptSource of `size` different prompts; each epoch has its own order. Options: `SortingOptions`."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._options = SortingOptions(**options)
        self._prompts = _different(seed, self._options)
        self._order = Order(seed, self._options.domain, self._options.size)
        rules = {"rule": "sorting/1, order/1", "seed": seed, "held_out": HELD_OUT, **asdict(self._options)}
        self.content_hash = hashlib.sha256(json.dumps([rules, self._prompts], sort_keys=True).encode()).hexdigest()

    def domains(self) -> Sequence[str]:
        """The one domain."""
        return (self._options.domain,)

    def size(self, domain: str) -> int:
        """Prompts in one pass. Raises KeyError for another domain."""
        self._check(domain)
        return len(self._prompts)

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        """The task at a place. Raises KeyError for another domain, IndexError for a place outside the pass."""
        self._check(domain)
        digits = self._prompts[self._order.at(ordinal, epoch)]
        binding = VerifierBinding(self._options.verifier, answer(digits))
        return Task(f"sort-{digits}", f"{digits}>", (*tokens(digits), ARROW), (binding,))

    def _check(self, domain: str) -> None:
        if domain != self._options.domain:
            raise KeyError(f"no domain {domain!r}: this source has {self._options.domain!r}")


def _different(seed: int, options: SortingOptions) -> list[str]:
    if options.split not in ("train", "eval"):
        raise ValueError(f"unknown split {options.split!r}")
    # Half of the prompts that the side has by expectation: beyond that, drawing different ones takes long, or for ever.
    limit = 10**options.digits * (1 if options.split == "eval" else HELD_OUT - 1) // (2 * HELD_OUT)
    if not 1 <= options.size <= limit:
        raise ValueError(f"size {options.size}: there are 1 to {limit} prompts of {options.digits} digits")
    chosen: dict[str, None] = {}
    for drawn in prompts(seed, options.split, options.digits):
        chosen[drawn] = None
        if len(chosen) == options.size:
            break
    return list(chosen)
