import socket

import pytest

from pipeline.config import ConfigError, load_settings
from pipeline.log.topics import check_run_name


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("BOOTSTRAP", "REDIS_URL", "RUN", "SLOT", "DATA_DIR", "LOG_LEVEL", "CONCURRENCY", "KAFKA"):
        monkeypatch.delenv(f"TAMIS_{name}", raising=False)


def refused(**given):
    with pytest.raises(ConfigError) as error:
        load_settings(**given)
    return error.value


def test_settings_come_from_the_environment_and_flags_beat_it(monkeypatch):
    monkeypatch.setenv("TAMIS_BOOTSTRAP", "broker:9092")
    monkeypatch.setenv("TAMIS_RUN", "one")
    monkeypatch.setenv("TAMIS_CONCURRENCY", "8")
    monkeypatch.setenv("TAMIS_KAFKA", '{"security.protocol": "SSL"}')
    found = load_settings(run="two", slot=None)
    assert (found.bootstrap, found.run, found.concurrency) == ("broker:9092", "two", 8)
    assert found.kafka == {"security.protocol": "SSL"}


def test_defaults_are_the_host_name_and_an_absolute_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAMIS_RUN", "")
    found = load_settings()
    assert (found.slot, found.data_dir, found.run) == (socket.gethostname(), tmp_path / "data", None)


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "redis://localhost",
        "rediss://user:pw@redis.example:6380/3?ssl_cert_reqs=none",
        "redis://[::1]:6379/0",
        "unix:///tmp/redis.sock?db=1",
    ],
)
def test_a_redis_url_is_taken_as_it_is(url):
    assert load_settings(redis_url=url).redis_url.get_secret_value() == url


@pytest.mark.parametrize("value", ["True", "False", ""])
def test_a_redis_url_that_decodes_payloads_is_refused(value):
    error = refused(redis_url=f"redis://127.0.0.1:6379/0?decode_responses={value}")
    assert error.problems[0].name == "decodes_payloads"
    assert "decode_responses" in str(error)
    assert "bytes" in str(error)


@pytest.mark.parametrize(
    "url", ["", "host:6379", "http://host", "redis://", "redis://host:port/0", "redis://host/a", "redis://host:0/0"]
)
def test_a_wrong_redis_url_is_refused_without_showing_it(url, monkeypatch):
    monkeypatch.setenv("TAMIS_REDIS_URL", url or "nonsense-s3cret")
    error = refused()
    assert error.problems[0].where == "TAMIS_REDIS_URL"
    assert "redis://host:6379/0" in str(error)


def test_a_password_is_shown_nowhere(monkeypatch):
    url = "redis://user:s3cret@host:6379/2"
    found = load_settings(redis_url=url, kafka={"sasl.password": "s3cret"})
    assert "s3cret" not in repr(found) + str(found) + found.model_dump_json(exclude={"kafka"})
    assert found.redis_address() == "redis://***@host:6379/2"
    assert load_settings(redis_url="redis://host:6379").redis_address() == "redis://host:6379"
    assert load_settings().redis_address() is None
    assert "s3cret" not in str(refused(redis_url="redis://user:s3cret@host:6379/x"))
    monkeypatch.setenv("TAMIS_KAFKA", "s3cret")
    assert "s3cret" not in str(refused())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slot", "a/b"),
        ("bootstrap", "foo:bar"),
        ("bootstrap", "broker:9092,"),
        ("bootstrap", "SSL://broker:9092"),
        ("concurrency", 0),
        ("log_level", "loud"),
        ("kafka", {"transactional.id": "mine"}),
        ("kafka", {"isolation.level": "read_uncommitted"}),
    ],
)
def test_a_wrong_flag_is_named_as_such(name, value):
    assert refused(**{name: value}).problems[0].where == f"--{name.replace('_', '-')}"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BOOTSTRAP", "foo:bar", "TAMIS_BOOTSTRAP: 'foo:bar' is no address; expected host:port"),
        ("RUN", "Bad Name", "TAMIS_RUN: 'Bad Name' is no name of a run; expected 1 to 63 of a-z, 0-9, _ and -"),
        ("SLOT", "a b", "TAMIS_SLOT: 'a b' is no slot; expected 1 to 200 letters, digits"),
        ("KAFKA", "{", "TAMIS_KAFKA: is no JSON (Expecting property name"),
        ("KAFKA", '{"a": 1}', "TAMIS_KAFKA: a: expected a valid string"),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_expected(name, value, said, monkeypatch):
    monkeypatch.setenv(f"TAMIS_{name}", value)
    assert str(refused()).startswith(said)


def test_addresses_of_several_brokers_are_taken():
    for addresses in ("one:9092,two:9093", "one", "[::1]:9092", "10.0.0.1:9092, two.example:9092"):
        assert load_settings(bootstrap=addresses).bootstrap == addresses


@pytest.mark.parametrize(
    ("run", "fits"), [("a-b_9", True), ("9" * 63, True), ("A", False), ("a" * 64, False), ("a\n", False)]
)
def test_a_run_is_called_the_same_in_settings_and_in_kafka(run, fits):
    if fits:
        assert load_settings(run=run).run == check_run_name(run)
        return
    assert refused(run=run).problems[0].where == "RUN"
    with pytest.raises(ValueError, match="is no name of a run; expected 1 to 63 of a-z"):
        check_run_name(run)


def test_kafka_options_that_exactly_once_depends_on_are_refused():
    assert "transactional.id" in str(refused(kafka={"linger.ms": "5", "transactional.id": "mine"}))
    assert load_settings(kafka={"linger.ms": "5"}).kafka == {"linger.ms": "5"}
