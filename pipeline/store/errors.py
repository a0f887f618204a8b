"""What can go wrong with payloads, one class per answer the caller has to give.

StoreError
├── StoreConfigError      stop: a person has to change the URL or the server
├── StoreUnreachable      wait and send the same again: every command here may be repeated
├── StoreFull             wait, then send what is left
└── PayloadTooLarge       fail the response: it will never fit
PayloadDamaged            the value's bytes aren't a payload: its response is lost
"""

from collections.abc import Sequence


class StoreError(Exception):
    """Redis cannot do what was asked."""


class StoreConfigError(StoreError, ValueError):
    """The Redis URL, or the server behind it, can't hold payloads safely as it is set up."""


class StoreUnreachable(StoreError):
    """Redis doesn't answer, or answers that it can't serve now."""


class StoreFull(StoreError):
    """Redis is out of memory now. `written` names the keys that it holds, `left` those to send again, in order."""

    def __init__(self, written: Sequence[str], left: Sequence[str], address: str) -> None:
        self.written = tuple(written)
        self.left = tuple(left)
        super().__init__(
            f"Redis at {address} is out of memory: {len(self.written)} payloads written, {len(self.left)} refused; "
            f"send those left again when payloads have been dropped, or raise maxmemory"
        )


class PayloadTooLarge(StoreError):
    """Values over the limit; nothing was sent. `sizes` maps each such key to its bytes, `limit` is the most allowed."""

    def __init__(self, sizes: dict[str, int], limit: int) -> None:
        self.sizes = sizes
        self.limit = limit
        key, size = next(iter(sizes.items()))
        super().__init__(
            f"{len(sizes)} payloads are too large, the first is {key} of {size} bytes; the most is {limit}; "
            f"fail these responses as too long and send the others"
        )


class PayloadDamaged(ValueError):
    """A value isn't a payload. `what` names the part, with what was found and what was expected there."""

    def __init__(self, what: str, found: object, expected: object) -> None:
        self.what = what
        super().__init__(
            f"damaged payload: {what} is {found!r}, expected {expected}; its response is lost: end it and drop its key"
        )
