"""Where a process runs: addresses, secrets, concurrency. From the environment (`TAMIS_…`) and flags; none decides."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from pipeline.config.errors import ConfigError, Problem, shown
from pipeline.config.values import RunName

PREFIX = "TAMIS_"
TrackerKind = Literal["jsonl", "tensorboard", "wandb"]
_SLOT = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")
_DECODES = {"decode_responses", "encoding", "encoding_errors", "errors"}
_OURS = {
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "group.instance.id",
    "isolation.level",
    "transaction.timeout.ms",
    "transactional.id",
}


def _redis(secret: SecretStr) -> SecretStr:
    """Its errors never show the address, since it may hold a password."""
    try:
        url = urlsplit(secret.get_secret_value())
        fits = url.scheme == "unix" or (url.scheme in ("redis", "rediss") and url.hostname and url.port != 0)
        fits = bool(fits and (url.scheme == "unix" or re.fullmatch(r"/?[0-9]*", url.path)))
    except ValueError:
        fits = False
    if not fits:
        raise PydanticCustomError(
            "bad_redis_url", "expected redis://, rediss:// or unix://, such as redis://host:6379/0"
        )
    refused = sorted(_DECODES & parse_qs(url.query, keep_blank_values=True).keys())
    if refused:
        message = "the option {option} is refused: payloads are bytes and must never be decoded; remove it"
        raise PydanticCustomError("decodes_payloads", message, {"option": refused[0]})
    return secret


def _brokers(text: str) -> str:
    """Addresses that the client and our own probe read alike."""
    for address in text.split(","):
        try:
            parts = urlsplit(f"//{address.strip()}")
            fits = bool(parts.hostname) and parts.port != 0 and not re.search(r"[\s/@?#]", address.strip())
        except ValueError:
            fits = False
        if not fits:
            message = "{value} is no address; expected host:port, several with commas between them"
            raise PydanticCustomError("bad_address", message, {"value": shown(address.strip())})
    return text


def _slot(text: str) -> str:
    if not _SLOT.match(text):
        message = "{value} is no slot; expected 1 to 200 letters, digits, '.', '_' and '-'"
        raise PydanticCustomError("bad_slot", message, {"value": shown(text)})
    return text


def _json(value: Any) -> Any:
    """Options as the environment has them. The error doesn't show them, since they may be secret."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        shape = '{"security.protocol": "SSL"}'
        raise PydanticCustomError(
            "not_json", "is no JSON ({why}); expected such as {shape}", {"why": str(error), "shape": shape}
        ) from error


def _kafka(options: dict[str, str]) -> dict[str, str]:
    refused = sorted(_OURS & options.keys())
    if refused:
        message = "{option} is Tamis' own, since exactly-once depends on it; remove it"
        raise PydanticCustomError("kafka_option", message, {"option": refused[0]})
    return options


def _words(value: Any) -> Any:
    """`jsonl,wandb` as a tuple."""
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


class ProcessSettings(BaseSettings):
    """The settings of one process. `slot` names its place: a process that takes it over is the same to Kafka."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    bootstrap: Annotated[str, AfterValidator(_brokers)] | None = None
    redis_url: Annotated[SecretStr, AfterValidator(_redis)] | None = None
    run: RunName | None = None
    slot: Annotated[str, AfterValidator(_slot)] = Field(default_factory=socket.gethostname, validate_default=True)
    data_dir: Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())] = Field(
        Path("data"), validate_default=True
    )
    """The folder that trainer and generators share: policies and checkpoints."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    concurrency: int | None = Field(None, ge=1)
    """Calls under way at once; None: what the plugin says."""
    trackers: Annotated[tuple[TrackerKind, ...], NoDecode, BeforeValidator(_words)] = ()
    """Where the monitor keeps the run's numbers as well; separated by commas. Files go to data_dir/RUN/trackers."""
    kafka: Annotated[dict[str, str], NoDecode, BeforeValidator(_json), AfterValidator(_kafka)] = Field({}, repr=False)
    """Passed on to the Kafka client as it is, such as security.protocol; JSON in the environment."""

    def redis_address(self) -> str | None:
        """The Redis URL without its password, for logs."""
        if self.redis_url is None:
            return None
        url = urlsplit(self.redis_url.get_secret_value())
        host = url.netloc.rpartition("@")[2]
        return url._replace(netloc=f"***@{host}" if "@" in url.netloc else host, query="").geturl()


def load_settings(**given: Any) -> ProcessSettings:
    """The settings of this process; what is given (flags) beats the environment. Raises ConfigError."""
    try:
        return ProcessSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise ConfigError([_problem(dict(found), given) for found in error.errors(include_input=False)]) from None


def _problem(found: dict[str, Any], given: dict[str, Any]) -> Problem:
    key = str(found["loc"][0]) if found["loc"] else ""
    flag = "RUN" if key == "run" else f"--{key.replace('_', '-')}"  # an argument of most commands
    place = flag if given.get(key) is not None else f"{PREFIX}{key.upper()}"
    return Problem(found["type"], tuple(found["loc"][1:]), found["msg"].replace("Input should be", "expected"), place)
