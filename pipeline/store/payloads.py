"""Payloads in Redis: leased when written, permanent when admitted, dropped by name.

Every call may be repeated after a failure: a key is fresh and its value never changes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from redis.exceptions import OutOfMemoryError

from pipeline.store.errors import PayloadTooLarge, StoreConfigError, StoreFull, StoreUnreachable
from pipeline.store.keys import checked_run, pattern
from pipeline.store.wire import Wire, command

CHUNK_BYTES = 1 << 19
"""One MGET asks for about this much: Redis holds two replies, and the memory they take counts against its maxmemory."""
CHUNK_KEYS = 1000
REDIS_LARGEST = 512 << 20


class ServerFacts(NamedTuple):
    """What a Redis says of itself; `maxmemory` 0 is no limit, `run_id` is new at each start of the server."""

    maxmemory: int
    policy: str
    run_id: str
    version: str
    used_memory: int


def largest_that_fits(maxmemory: int) -> int:
    """The largest value in bytes that an empty Redis surely takes: a write needs its size twice while it goes on."""
    return min(maxmemory * 2 // 5, REDIS_LARGEST) if maxmemory else REDIS_LARGEST


class PayloadStore:
    """The payloads of one run. Each call that talks to Redis raises StoreUnreachable when it can't serve.

    `limit_bytes` is the largest payload accepted: `max_payload_bytes`, or less once `check_server` has seen the server.
    """

    def __init__(self, url: str, run: str, *, max_payload_bytes: int) -> None:
        """Opens no connection yet. Raises StoreConfigError for a URL, ValueError for a run that can't be used."""
        self.run = checked_run(run)
        self.limit_bytes = self._max_payload_bytes = max_payload_bytes
        self._wire = Wire(url)

    @property
    def address(self) -> str:
        """Where Redis is, in words, without a password."""
        return self._wire.address

    def check_server(self) -> ServerFacts:
        """What the server says of itself. Raises StoreConfigError if it could lose payloads or can't serve the run."""
        server, memory = self._info(b"server"), self._info(b"memory")
        if memory["maxmemory_policy"] != "noeviction":
            raise StoreConfigError(
                f"Redis at {self.address} has maxmemory-policy {memory['maxmemory_policy']} and would lose payloads; "
                "expected noeviction: set it in redis.conf, or redis-cli config set maxmemory-policy noeviction"
            )
        if server.get("redis_mode") == "cluster":
            raise StoreConfigError(
                f"Redis at {self.address} is a cluster; expected a single server: name one in "
                "TAMIS_REDIS_URL (--redis-url)"
            )
        facts = ServerFacts(
            int(memory["maxmemory"]),
            memory["maxmemory_policy"],
            server["run_id"],
            server["redis_version"],
            int(memory["used_memory"]),
        )
        self.limit_bytes = min(self._max_payload_bytes, largest_that_fits(facts.maxmemory))
        return facts

    def put_many(self, items: Sequence[tuple[str, bytes]], ttl_ms: int) -> None:
        """Write values under fresh keys, each leased for `ttl_ms`.

        Raises PayloadTooLarge, with nothing sent; StoreFull, with the keys written and left; ValueError for no lease.
        """
        if ttl_ms < 1:
            raise ValueError(f"a lease of {ttl_ms} ms; expected 1 or more, and more than a group's deadline")
        too_large = {key: len(value) for key, value in items if len(value) > self.limit_bytes}
        if too_large:
            raise PayloadTooLarge(too_large, self.limit_bytes)
        replies = self._wire.exchange(_writes(items, ttl_ms), len(items))
        full = [isinstance(reply, OutOfMemoryError) for reply in replies]
        self._wire.expect_no_refusal(reply for reply, oom in zip(replies, full, strict=True) if not oom)
        if any(full):
            keys = [(key, oom) for (key, _), oom in zip(items, full, strict=True)]
            raise StoreFull([key for key, oom in keys if not oom], [key for key, oom in keys if oom], self.address)

    def admit(self, keys: Sequence[str], head_bytes: Sequence[int]) -> list[bytes | None]:
        """Take the lease off each payload, so that it stays until dropped; its head, or None if it is gone."""
        replies = self._wire.exchange(_admissions(keys, head_bytes), 2 * len(keys))
        self._wire.expect_no_refusal(replies)
        return [head or None for head in replies[1::2]]

    def get_many(self, keys: Sequence[str], sizes: Sequence[int] | None = None) -> list[bytes | None]:
        """The values, None for those that are gone. With `sizes` in bytes, as recorded, it asks for more at a time."""
        sizes = [self.limit_bytes] * len(keys) if sizes is None else sizes
        replies = self._wire.in_turn([command(b"MGET", *chunk) for chunk in _chunks(keys, sizes)])
        return [value for values in replies for value in values]

    def drop(self, keys: Sequence[str]) -> int:
        """Delete payloads; how many of them there were."""
        names = [_encoded(key) for key in keys]
        chunks = (names[i : i + CHUNK_KEYS] for i in range(0, len(names), CHUNK_KEYS))
        return sum(self._wire.in_turn([command(b"UNLINK", *chunk) for chunk in chunks]))

    def scan(self, partition: int | None = None) -> Iterator[list[str]]:
        """All keys under the run's prefix, or those of one partition, in lists. A key may come twice."""
        match, count, cursor = pattern(self.run, partition).encode(), b"%d" % CHUNK_KEYS, b"0"
        while True:
            cursor, names = self._wire.call(b"SCAN", cursor, b"MATCH", match, b"COUNT", count)
            if names:
                yield [name.decode("utf-8", "surrogateescape") for name in names]
            if cursor == b"0":
                return

    def count_keys(self, partition: int | None = None) -> int:
        """How many keys are under the run's prefix, leased or not, or of one partition."""
        return len({key for keys in self.scan(partition) for key in keys})

    def used_bytes(self) -> int:
        """The memory that Redis uses, of all runs and programs."""
        return int(self._info(b"memory")["used_memory"])

    def server_run_id(self) -> str:
        """An id that changes whenever the server is started anew."""
        return self._info(b"server")["run_id"]

    def wait_until_answers(self, deadline_s: float, should_stop: Callable[[], bool]) -> bool:
        """Wait for Redis; False if told to stop before it answers. Raises StoreUnreachable after `deadline_s`."""
        give_up, pause_s = time.monotonic() + deadline_s, 0.02
        while not should_stop():
            try:
                self._wire.call(b"PING")
                return True
            except StoreUnreachable:
                if time.monotonic() + pause_s > give_up:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)
        return False

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def _info(self, section: bytes) -> dict[str, str]:
        lines = self._wire.call(b"INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def _writes(items: Sequence[tuple[str, bytes]], ttl_ms: int) -> Iterator[bytes]:
    """SET key value PX ttl, the value uncopied."""
    ttl = b"%d" % ttl_ms
    end = b"\r\n$2\r\nPX\r\n$%d\r\n%b\r\n" % (len(ttl), ttl)
    for key, value in items:
        name = _encoded(key)
        yield b"*5\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n" % (len(name), name, len(value))
        yield value
        yield end


def _admissions(keys: Sequence[str], head_bytes: Sequence[int]) -> Iterator[bytes]:
    for key, size in zip(keys, head_bytes, strict=True):
        name = _encoded(key)
        yield command(b"PERSIST", name)
        yield command(b"GETRANGE", name, b"0", b"%d" % (size - 1))


def _chunks(keys: Sequence[str], sizes: Sequence[int]) -> Iterator[list[bytes]]:
    """The keys, encoded and in order, in lists of CHUNK_BYTES or one key."""
    chunk: list[bytes] = []
    room = CHUNK_BYTES
    for key, size in zip(keys, sizes, strict=True):
        if chunk and size > room:
            yield chunk
            chunk, room = [], CHUNK_BYTES
        chunk.append(_encoded(key))
        room -= size
    if chunk:
        yield chunk


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")
