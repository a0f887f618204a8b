import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser
from redis.connection import Connection, UnixDomainSocketConnection

from pipeline.store.errors import PayloadTooLarge, StoreConfigError, StoreFull, StoreUnreachable
from pipeline.store.keys import fresh_key
from pipeline.store.payloads import PayloadStore, largest_that_fits

from .conftest import MEGABYTE, StoreMaker, running_redis

HOUR_MS = 3_600_000


def keys_of(store: PayloadStore, count: int, group: str = "1@0") -> list[str]:
    return [fresh_key(store.run, group, slot, 0) for slot in range(count)]


def lease_ms(url: str, key: str) -> int:
    """-1 without a lease, -2 without a key."""
    with redis.Redis.from_url(url) as client:
        return int(client.pttl(key))


def test_a_payload_is_leased_until_admitted_and_gone_when_dropped(store: PayloadStore, redis_url: str) -> None:
    (key,) = keys_of(store, 1)
    store.put_many([(key, b"0123456789")], 60_000)
    assert 0 < lease_ms(redis_url, key) <= 60_000
    assert store.admit([key], [4]) == [b"0123"]
    assert lease_ms(redis_url, key) == -1
    assert store.admit([key], [10]) == [b"0123456789"], "a scorer that starts again admits once more"
    assert store.drop([key]) == 1
    assert lease_ms(redis_url, key) == -2


def test_what_is_gone_is_none_in_its_place(store: PayloadStore) -> None:
    first, gone, last = keys_of(store, 3)
    store.put_many([(first, b"one"), (last, b"two")], HOUR_MS)
    assert store.admit([first, gone, last], [2, 2, 2]) == [b"on", None, b"tw"]
    assert store.get_many([first, gone, last]) == [b"one", None, b"two"]
    assert store.get_many([gone, last, first], [3, 3, 3]) == [None, b"two", b"one"]
    assert store.drop([first, gone]) == 1


def test_nothing_asked_is_nothing_sent(tmp_path: Path) -> None:
    unreachable = PayloadStore(f"unix://{tmp_path}/none.sock", "run", max_payload_bytes=1)
    unreachable.put_many([], HOUR_MS)
    assert (unreachable.admit([], []), unreachable.get_many([]), unreachable.drop([])) == ([], [], 0)


@pytest.mark.parametrize("size", [1, 4096, 65536, 700_000])
def test_many_payloads_come_back_in_order(store: PayloadStore, size: int) -> None:
    items = [(key, os.urandom(size)) for key in keys_of(store, 40)]
    store.put_many(items, HOUR_MS)
    keys, values = zip(*items, strict=True)
    assert store.get_many(keys) == list(values)
    assert store.get_many(keys, [size] * len(keys)) == list(values)
    assert store.admit(keys, [size] * len(keys)) == list(values)
    assert store.drop(keys) == len(keys)


def test_thousands_of_keys_are_dropped_and_counted_in_chunks(store: PayloadStore) -> None:
    keys = [key for n in range(500) for key in keys_of(store, 5, f"{n}@{n % 4}")]
    store.put_many([(key, b"x") for key in keys], HOUR_MS)
    assert (store.count_keys(), store.count_keys(3)) == (2500, 625)
    assert store.drop(keys) == 2500
    assert store.count_keys() == 0


@pytest.fixture(params=[_HiredisParser, _RESP2Parser], ids=["hiredis", "without hiredis"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes redis-py read replies as it does with, or without, the hiredis package."""
    for connection in (Connection, UnixDomainSocketConnection):
        defaults = connection.__init__
        monkeypatch.setattr(
            connection,
            "__init__",
            lambda self, *args, _init=defaults, **kwargs: _init(
                self, *args, **(kwargs | {"parser_class": request.param})
            ),
        )


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("value", [b"\xff\x00\xc3\x28", b"all of it is ASCII", b"\r\n$-1\r\n", "é".encode()])
def test_bytes_come_back_the_same_whatever_they_look_like(store: PayloadStore, value: bytes) -> None:
    (key,) = keys_of(store, 1)
    store.put_many([(key, value)], HOUR_MS)
    assert store.admit([key], [len(value)]) == [value]
    assert store.get_many([key]) == [value]
    assert list(store.scan()) == [[key]]


def test_a_key_name_that_is_no_text_can_be_listed_and_dropped(store: PayloadStore, redis_url: str) -> None:
    name = f"tamis:{store.run}:{{".encode() + b"\xff\xfe"
    with redis.Redis.from_url(redis_url) as client:
        client.set(name, "x")
    ((key,),) = store.scan()
    assert store.drop([key]) == 1


def test_a_run_sees_its_own_keys_only(make_store: StoreMaker) -> None:
    stores = [make_store(run) for run in ("a", "a1", "a.", "A", "xa")]
    for store in stores:
        store.put_many([(key, b"x") for key in keys_of(store, 2, "1@1") + keys_of(store, 1, "1@11")], HOUR_MS)
    for store in stores:
        assert (store.count_keys(), store.count_keys(1), store.count_keys(11)) == (3, 2, 1)


def test_a_server_that_would_evict_payloads_is_refused(tmp_path: Path) -> None:
    with running_redis(tmp_path, "--maxmemory-policy", "allkeys-lru") as url:
        store = PayloadStore(url, "run", max_payload_bytes=1)
        with pytest.raises(StoreConfigError, match=r"maxmemory-policy allkeys-lru .* set maxmemory-policy noeviction"):
            store.check_server()
        store.close()


def test_a_server_says_what_it_is(make_store: StoreMaker, small_redis_url: str) -> None:
    store = make_store(url=small_redis_url, max_payload_bytes=100 * MEGABYTE)
    facts = store.check_server()
    assert (facts.maxmemory, facts.policy, facts.run_id) == (64 * MEGABYTE, "noeviction", store.server_run_id())
    assert 0 < facts.used_memory < store.used_bytes() + MEGABYTE
    assert facts.version[0].isdecimal()
    assert store.limit_bytes == largest_that_fits(64 * MEGABYTE)


def test_a_payload_that_never_fits_is_told_from_a_full_redis(make_store: StoreMaker, small_redis_url: str) -> None:
    store = make_store(url=small_redis_url, max_payload_bytes=100 * MEGABYTE)
    store.check_server()
    huge, *others = keys_of(store, 21)
    items = [(key, b"x" * 4096) for key in others]
    with pytest.raises(PayloadTooLarge, match="are too large") as caught:
        store.put_many([*items, (huge, bytes(40 * MEGABYTE))], HOUR_MS)
    assert (caught.value.sizes, caught.value.limit) == ({huge: 40 * MEGABYTE}, largest_that_fits(64 * MEGABYTE))
    assert store.count_keys() == 0
    store.put_many(items, HOUR_MS)
    assert store.get_many(others) == [value for _, value in items]


def test_the_largest_that_fits_does(make_store: StoreMaker, small_redis_url: str) -> None:
    store = make_store(url=small_redis_url, max_payload_bytes=100 * MEGABYTE)
    largest = largest_that_fits(store.check_server().maxmemory)
    (key,) = keys_of(store, 1)
    store.put_many([(key, bytes(largest))], HOUR_MS)
    assert store.drop([key]) == 1
    assert largest_that_fits(0) == largest_that_fits(1 << 40) == 512 * MEGABYTE
    assert largest_that_fits(1) == 0


def test_a_full_redis_keeps_what_it_took_and_takes_the_rest_after_a_drop(
    make_store: StoreMaker, small_redis_url: str
) -> None:
    store = make_store(url=small_redis_url)
    items = [(key, os.urandom(MEGABYTE // 2)) for key in keys_of(store, 150)]
    values = dict(items)
    with pytest.raises(StoreFull, match="out of memory") as caught:
        store.put_many(items, HOUR_MS)
    written, left = caught.value.written, caught.value.left
    assert written
    assert sorted(written + left) == sorted(values)
    assert store.count_keys() == len(written)
    with pytest.raises(StoreFull) as again:
        store.put_many([(key, values[key]) for key in left], HOUR_MS)
    assert store.admit([written[0]], [4]) == [values[written[0]][:4]], "reading and admitting go on"
    written += again.value.written
    assert store.drop(written) == len(written)
    store.put_many([(key, values[key]) for key in again.value.left], HOUR_MS)
    assert store.get_many(again.value.left) == [values[key] for key in again.value.left]


def test_a_redis_that_starts_anew_is_waited_for_and_has_another_run_id(tmp_path: Path) -> None:
    with running_redis(tmp_path) as url:
        store = PayloadStore(url, "run", max_payload_bytes=1)
        first = store.server_run_id()
    with pytest.raises(StoreUnreachable, match=r"redis\.sock can't serve: .*see that it runs"):
        store.put_many([("key", b"x")], HOUR_MS)
    with pytest.raises(StoreUnreachable):
        store.wait_until_answers(0.1, lambda: False)
    assert not store.wait_until_answers(60.0, lambda: True)
    with running_redis(tmp_path):
        assert store.wait_until_answers(20.0, lambda: False)
        assert store.server_run_id() != first
    store.close()


def test_a_wrong_password_is_for_a_person_and_not_waited_for(tmp_path: Path, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.acl_setuser("alice", enabled=True, passwords=["+right"], commands=["+@all"], keys=["*"])
        client.acl_setuser("bob", enabled=True, passwords=["+right"], commands=["+@all", "-set", "-info"], keys=["*"])
    for user, password, act in (
        ("alice", "wr0ng", lambda store: store.wait_until_answers(60.0, lambda: False)),
        ("bob", "right", lambda store: store.check_server()),
        ("bob", "right", lambda store: store.put_many([("key", b"x")], HOUR_MS)),
    ):
        store = PayloadStore(redis_url.replace("//", f"//{user}:{password}@"), "run", max_payload_bytes=1)
        with pytest.raises(
            StoreConfigError, match=r"refuses this user.*TAMIS_REDIS_URL \(--redis-url\) or its ACL"
        ) as caught:
            act(store)
        assert password not in str(caught.value)
        store.close()


def test_a_server_that_refuses_writes_for_now_is_waited_for(tmp_path: Path) -> None:
    with running_redis(tmp_path, "--replicaof", "127.0.0.1", "1") as url:
        store = PayloadStore(url, "run", max_payload_bytes=1)
        with pytest.raises(StoreUnreachable, match="read only replica"):
            store.put_many([("key", b"x")], HOUR_MS)
        store.close()


def test_a_lease_of_nothing_is_refused(store: PayloadStore) -> None:
    with pytest.raises(ValueError, match="lease of 0 ms"):
        store.put_many([(keys_of(store, 1)[0], b"x")], 0)


@contextmanager
def answering(replies: bytes, path: Path) -> Iterator[str]:
    """A server that gives these bytes to whoever sends it something, and hangs up."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(replies)

    with socketserver.UnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"unix://{path}"
        server.shutdown()
        thread.join()


def test_a_connection_lost_half_way_is_never_read_as_an_answer(tmp_path: Path) -> None:
    with answering(b"+OK\r\n+OK\r\n+OK\r\n+O", tmp_path / "half.sock") as url:
        store = PayloadStore(url, "run", max_payload_bytes=1)
        with pytest.raises(StoreUnreachable):
            store.put_many([("one", b"1"), ("two", b"2")], HOUR_MS)
        store.close()
