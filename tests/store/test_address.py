from pathlib import Path

import pytest

from pipeline.store.errors import StoreConfigError, StoreUnreachable
from pipeline.store.payloads import PayloadStore


def connect(url: str) -> PayloadStore:
    return PayloadStore(url, "run", max_payload_bytes=1)


@pytest.mark.parametrize("scheme", ["redis://127.0.0.1:6379/0", "unix:///tmp/redis.sock"])
@pytest.mark.parametrize("value", ["True", "False", "0", "no", ""])
@pytest.mark.parametrize("option", ["decode_responses", "encoding", "encoding_errors", "decode%5fresponses"])
def test_an_option_that_turns_bytes_into_text_is_refused(scheme: str, option: str, value: str) -> None:
    with pytest.raises(StoreConfigError, match=f"{option.replace('%5f', '_')}' is refused: .*bytes.*remove it"):
        connect(f"{scheme}?db=0&{option}={value}")


def test_an_unknown_option_is_refused_with_those_known() -> None:
    with pytest.raises(
        StoreConfigError, match="'Decode_Responses' is refused: a redis:// URL may have client_name, db, "
    ):
        connect("redis://localhost?Decode_Responses=1")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://user:secret@example:7000/3", "example:7000/3"),
        ("redis://localhost", "localhost:6379/0"),
        ("redis://localhost/1?db=2", "localhost:6379/2"),
        ("rediss://:secret@[::1]:6380/0?ssl_cert_reqs=none", "::1:6380/0"),
        ("unix:///run/redis.sock?db=2&password=secret", "/run/redis.sock"),
    ],
)
def test_an_address_has_no_password(url: str, address: str) -> None:
    assert connect(url).address == address


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://localhost", "scheme 'http'"),
        ("localhost:6379", "scheme 'localhost'"),
        ("redis://:se/cret@localhost", "port that is no number"),
        ("redis://localhost:99999", "port that is no number"),
        ("redis://localhost/cret", "database is no number"),
        ("redis://localhost?db=cret", "'db'"),
        ("unix://", "no socket"),
    ],
)
def test_a_url_that_names_no_redis_is_refused_without_quoting_it(url: str, problem: str) -> None:
    with pytest.raises(StoreConfigError, match=problem) as caught:
        connect(url)
    assert "cret" not in str(caught.value)


def test_a_redis_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    store = connect(f"unix://:secret@{tmp_path}/none.sock")
    with pytest.raises(StoreUnreachable, match=f"{tmp_path}/none.sock can't serve") as caught:
        store.check_server()
    assert "secret" not in str(caught.value)
