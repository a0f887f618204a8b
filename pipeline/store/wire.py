"""Redis commands as bytes, many in one go.

Connections, authentication, TLS and the parser are redis-py's. Packing and collecting is done here, because redis-py's
pipelines spend some 20 µs of Python on a command, several times what Redis spends on a 4 KB payload.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from pipeline.store.address import connection_pool
from pipeline.store.errors import StoreConfigError, StoreError, StoreUnreachable

BLOCK_BYTES = 1 << 18
"""Commands are sent in joined blocks of this size or more: Redis begins with the first before the last is packed."""

_SETTING = "TAMIS_REDIS_URL (--redis-url)"
_NOT_NOW = (ReadOnlyError, MasterDownError, ClusterDownError, OutOfMemoryError)
_NOT_NOW_TEXT = ("MISCONF", "NOREPLICAS")


class Wire:
    """A Redis, by its address. Safe to share among threads: each exchange has a connection of its own."""

    def __init__(self, url: str) -> None:
        """Raises StoreConfigError for a URL that can't be used; opens no connection yet."""
        self._pool, self.address = connection_pool(url)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._pool.disconnect()

    def call(self, *words: bytes) -> Any:
        """One command's reply. Raises StoreUnreachable or StoreConfigError."""
        return self.in_turn([command(*words)])[0]

    def exchange(self, pieces: Iterable[bytes], commands: int) -> list[Any]:
        """Send `commands` commands, given as `pieces` of their bytes; the replies, a ResponseError for a refusal.

        Raises StoreUnreachable when the connection breaks; what Redis had done by then is unknown.
        """
        if not commands:
            return []
        with self._connection() as connection:
            connection.send_packed_command(_blocks(pieces))
            return [_reply(connection) for _ in range(commands)]

    def in_turn(self, commands: Sequence[bytes]) -> list[Any]:
        """Send each command while Redis' reply to the one before is on its way, so it never holds more than two.

        Raises StoreUnreachable or StoreConfigError, also when Redis refuses one of them.
        """
        if not commands:
            return []
        replies = []
        with self._connection() as connection:
            connection.send_packed_command(commands[:1])
            for following in range(1, len(commands) + 1):
                # No health check here: its PING would take the reply that is on its way.
                connection.send_packed_command(commands[following : following + 1], check_health=False)
                replies.append(_reply(connection))
        self.expect_no_refusal(replies)
        return replies

    def expect_no_refusal(self, replies: Iterable[Any]) -> None:
        """Raise StoreUnreachable or StoreConfigError if there is a refusal among the replies."""
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise self._translated(reply)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            connection: Any = self._pool.get_connection()
            try:
                yield connection
            except BaseException:
                connection.disconnect()  # replies may be unread
                raise
            finally:
                self._pool.release(connection)
        except (redis.RedisError, OSError) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> StoreError:
        where, said = f"Redis at {self.address}", str(error).rstrip(".")
        if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
            return StoreConfigError(f"{where} refuses this user: {said}; correct the user in {_SETTING} or its ACL")
        if isinstance(error, ResponseError) and not _passing(error):
            return StoreConfigError(f"{where} refuses: {said}; correct {_SETTING} or the server's settings")
        return StoreUnreachable(f"{where} can't serve: {said}; see that it runs, is reachable and is no replica")


def _passing(refusal: ResponseError) -> bool:
    """Whether the server will serve again without a change to what we ask."""
    return isinstance(refusal, _NOT_NOW) or str(refusal).startswith(_NOT_NOW_TEXT)


def command(*words: bytes) -> bytes:
    """One command in RESP."""
    return b"*%d\r\n%b" % (len(words), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words]))


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    block, size = [], 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(block)
            block, size = [], 0
    yield b"".join(block)


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as refusal:
        return refusal
