"""The recorded form of a configuration: one JSON text for everything that decides, the same for the same decisions.

Keys are sorted, numbers finite, times in milliseconds, sizes in bytes. `domains` is a list, in the order of the file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

from pipeline.config.errors import ConfigError, Path
from pipeline.config.files import Document, document
from pipeline.config.load import validated
from pipeline.config.models import DecisionConfig
from pipeline.config.values import FACTORY

_PAYLOAD = {"payload_budget": "budget", "max_payload_bytes": "max_bytes", "payload_ttl_ms": "ttl_ms"}
_WRITTEN_ONLY = {"batch_size", "domains", "filter_zero_std_groups", "filters", "guard", "payload", "shadow_filters"}
_ONLY_IF_SET = (
    "correction", "environment", "exclude_above_pass_rate", "loss", "publication", "sample_masks", "selection", "start",
)  # fmt: skip
"""Left out at their defaults, so that records from before them are read as they were."""
_DECIDES = ("filters", "guard", "shadow_filters")
_TIMED = ("assembly", "starvation", "environment")


def canonical(config: DecisionConfig) -> str:
    """The configuration as RunStarted records it. Its payload budget must be resolved."""
    if config.payload.budget is None:
        message = "is not known; call resolve_budget first"
        raise ConfigError.of("budget_unresolved", message, ("payload", "budget"))
    fields = DecisionConfig.model_fields
    unset = {name for name in _ONLY_IF_SET if getattr(config, name) == fields[name].default}
    tree = config.model_dump(exclude=_WRITTEN_ONLY | unset)
    tree["domains"] = [_domain(config, name, quota) for name, quota in config.quotas().items()]
    if not config.evaluation.filter:
        del tree["evaluation"]["filter"]
    if config.selection is not None:
        tree["selection"]["window"] = config.window()
    for predicate in tree["response_filter"]:
        if predicate.get("on_error") == "reject":  # its default
            del predicate["on_error"]
    tree |= {recorded: getattr(config.payload, name) for recorded, name in _PAYLOAD.items()}
    return _json(tree)


def parse_canonical(text: str) -> DecisionConfig:
    """The configuration again, from RunStarted alone."""
    return validated(DecisionConfig, written(text))


def written(text: str) -> Document:
    """The same as a person would have written it."""
    tree = json.loads(text)
    domains = tree.pop("domains")
    tree["domains"] = {d["name"]: {key: d[key] for key in ("quota", *_DECIDES) if key in d} for d in domains}
    tree["payload"] = {name: tree.pop(recorded) for recorded, name in _PAYLOAD.items()}
    payload = tree["payload"]
    payload["max"] = payload.pop("max_bytes")
    for section in (tree, payload, *(tree[name] for name in _TIMED if name in tree)):
        for key in [key for key in section if key.endswith("_ms")]:
            section[key.removesuffix("_ms")] = f"{section.pop(key)}ms"
    return document(tree, "RunStarted.config")


def config_hash(text: str) -> str:
    """SHA-256 (hex) of a canonical configuration."""
    return hashlib.sha256(text.encode()).hexdigest()


def filter_hash(config: DecisionConfig, name: str) -> str:
    """What the filters of a domain are known by in events: equal if and only if they, their guard, their shadows and
    all settings of these are."""
    decides = _decides(config, name)
    whole = decides["filters"] if decides.keys() == {"filters"} else decides
    return hashlib.sha256(_json(whole).encode()).hexdigest()[:16]


def filter_hashes(config: DecisionConfig) -> dict[str, str]:
    """The filter hash of each domain."""
    return {name: filter_hash(config, name) for name in config.domains}


def source_hashes(config: DecisionConfig) -> dict[str, str]:
    """SHA-256 (hex) of the source file of every factory that is not Tamis' own, by its dotted path."""
    return {
        factory: _source_hash(factory, path)
        for path, factory in _factories(config.model_dump())
        if not factory.startswith("pipeline.")
    }


def _domain(config: DecisionConfig, name: str, quota: int) -> dict[str, Any]:
    return {"name": name, "quota": quota, **_decides(config, name), "filter_hash": filter_hash(config, name)}


def _decides(config: DecisionConfig, name: str) -> dict[str, Any]:
    """A domain's filters, and its guard and shadows where it has some."""
    found: dict[str, Any] = {"filters": [link.model_dump() for link in config.chain(name)]}
    if guard := config.guard_of(name):
        found["guard"] = guard.model_dump()
        if found["guard"].get("scope") == "domain":  # its default
            del found["guard"]["scope"]
    if shadows := config.shadows_of(name):
        found["shadow_filters"] = [link.model_dump() for link in shadows]
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _factories(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every factory that is named under a key `factory`, in options too (a tokenizer's, for one)."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "factory" and isinstance(item, str) and FACTORY.match(item):
                yield (*path, key), item
            yield from _factories(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _factories(item, (*path, index))


def _source_hash(factory: str, path: Path) -> str:
    module = factory.partition(":")[0]
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise ConfigError.of("module_not_found", f"{factory}: {error}; install it or mend the name", path) from error
    if spec is None or spec.origin is None or not File(spec.origin).is_file():
        raise ConfigError.of("module_not_found", f"{factory}: no source file of {module} is found; install it", path)
    return hashlib.sha256(File(spec.origin).read_bytes()).hexdigest()
