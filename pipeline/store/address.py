"""From a Redis URL to a connection pool, refusing what would change payload bytes or go unheard."""

from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pipeline.store.errors import StoreConfigError

READ_BYTES = 1 << 20
"""One read takes a chunk of payloads whole; redis-py's default of 64 KiB is slower at 64 KiB payloads."""

_ALWAYS = (
    "client_name",
    "db",
    "health_check_interval",
    "password",
    "socket_connect_timeout",
    "socket_timeout",
    "username",
)
_TLS = ("ca_certs", "ca_path", "cert_reqs", "certfile", "check_hostname", "keyfile", "keyfile_password")
_ALLOWED = {
    "unix": _ALWAYS,
    "redis": (*_ALWAYS, "socket_keepalive"),
    "rediss": (*_ALWAYS, "socket_keepalive", *(f"ssl_{option}" for option in _TLS)),
}
_TEXT = "payloads are bytes and must come back unchanged, but it turns replies into text"
_REASONS = {
    "decode_responses": f"{_TEXT} (any value does, since redis-py reads 'False' as true)",
    "encoding": _TEXT,
    "encoding_errors": _TEXT,
    "charset": _TEXT,
    "errors": _TEXT,
}


def connection_pool(url: str) -> tuple[redis.ConnectionPool, str]:
    """Connections to the Redis at `url`, none opened yet, and its address in words, without a password.

    Raises StoreConfigError for a URL that names no Redis and for options that payloads can't live with.
    """
    parts = _split(url)
    allowed = _ALLOWED[parts.scheme]
    for option in parse_qs(parts.query, keep_blank_values=True):
        if option not in allowed:
            reason = _REASONS.get(option, f"a {parts.scheme}:// URL may have {', '.join(allowed)}")
            raise StoreConfigError(f"redis URL option {option!r} is refused: {reason}; remove it from the URL")
    settings: dict[str, Any] = {  # the URL's options come before these
        "protocol": 2,
        "socket_read_size": READ_BYTES,
        "socket_connect_timeout": 2.0,
        "socket_timeout": 10.0,
        "health_check_interval": 30,
        "retry": Retry(NoBackoff(), 1),
    }
    if parts.scheme != "unix":
        settings["socket_keepalive"] = True
    try:
        pool = redis.ConnectionPool.from_url(url, **settings)
    except ValueError as error:
        raise StoreConfigError(f"the redis URL can't be used: {error}; correct it") from None
    return pool, _words(parts, pool.connection_kwargs.get("db", 0))


def _split(url: str) -> SplitResult:
    """The URL's parts. A message never quotes the URL: a password with a '/' or '#' in it could be in any part."""
    expected = "expected redis://[user:password@]host[:port][/db], rediss://… or unix:///path/to/socket[?db=0]"
    try:
        parts = urlsplit(url)
        numeric = parts.port is None or parts.port > 0
    except ValueError:
        numeric = False
    if not numeric:
        raise StoreConfigError(f"the redis URL has a port that is no number (a '/' or '#' in a password?); {expected}")
    if parts.scheme not in _ALLOWED:
        raise StoreConfigError(f"the redis URL has the scheme {parts.scheme!r}; {expected}")
    if parts.scheme == "unix" and not parts.path:
        raise StoreConfigError(f"the redis URL names no socket; {expected}")
    if parts.scheme != "unix" and parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        raise StoreConfigError(f"the redis URL's database is no number; {expected}")
    return parts


def _words(parts: SplitResult, database: int) -> str:
    """Where it is, as host:port/db or the socket's path."""
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname or 'localhost'}:{parts.port or 6379}/{database}"
