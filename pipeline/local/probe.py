"""Does it answer? Plain sockets, so that a check needs no client library and leaves no thread behind."""

import socket
import struct
import time
from collections.abc import Callable
from urllib.parse import urlsplit

# ApiVersions (18), version 0, correlation id, no client id: the one request that every broker takes unasked.
_CORRELATION = 0x7A3155
_API_VERSIONS = struct.pack(">hhih", 18, 0, _CORRELATION, -1)


def wait_until(condition: Callable[[], bool], within_s: float, every_s: float = 0.05) -> bool:
    """Whether `condition` came true within `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def kafka_answers(bootstrap: str, within_s: float = 1.0) -> bool:
    """Whether one of the brokers in `bootstrap` (host:port, comma separated) answers a request."""
    return any(_broker_answers(_host_port(address, 9092), within_s) for address in bootstrap.split(","))


def redis_answers(url: str, within_s: float = 1.0) -> bool:
    """Whether the Redis at `url` answers PING. One that loads its data doesn't; one that wants a password does."""
    try:
        with _connect(_redis_address(url), within_s) as sock:
            sock.sendall(b"PING\r\n")
            return sock.recv(64).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


def kafka_listens(bootstrap: str, within_s: float = 3.0) -> bool:
    """Whether one of the brokers accepts a connection. All that can be asked of one that wants TLS or a password."""
    return any(_listens(_host_port(address, 9092), within_s) for address in bootstrap.split(","))


def redis_listens(url: str, within_s: float = 3.0) -> bool:
    """Whether the Redis at `url` accepts a connection."""
    return _listens(_redis_address(url), within_s)


Address = tuple[str, int] | str


def _listens(address: Address, within_s: float) -> bool:
    try:
        with _connect(address, within_s):
            return True
    except OSError:
        return False


def _broker_answers(address: Address, within_s: float) -> bool:
    try:
        with _connect(address, within_s) as sock:
            sock.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
            head = sock.recv(8, socket.MSG_WAITALL)
            return len(head) == 8 and struct.unpack(">ii", head)[1] == _CORRELATION
    except OSError:
        return False


def _connect(address: Address, within_s: float) -> socket.socket:
    if isinstance(address, tuple):
        return socket.create_connection(address, timeout=within_s)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(within_s)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def _redis_address(url: str) -> Address:
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else (parts.hostname or "localhost", parts.port or 6379)


def _host_port(address: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{address.strip()}")
    return parts.hostname or "localhost", parts.port or default_port
