"""What a ROLL batch is made of: its size, its domains, and its groups."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.config.errors import ConfigError
from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.foreign import Foreign
from pipeline.config.imports.table import Draft
from pipeline.config.roll import AgenticBatch

PROBABILITIES = "actor_train.data_args.domain_interleave_probs"
TRAIN, VAL = "train_env_manager", "val_env_manager"


def is_whole(file: Foreign) -> bool:
    """Whether the file says how large a batch is, and so isn't a part of a configuration only."""
    return file.number("rollout_batch_size") is not None


def batch(at: At) -> Iterator[Setting]:
    """Groups in a batch. RLVR counts prompts, and agentic runs trajectories."""
    file, size = at.file, at.whole(1)
    if file.names(TRAIN):
        group = int(file.number(f"{TRAIN}.group_size", 1))
        if group < 1 or size % group:
            raise NotCarried(f"is {size} trajectories, which group_size {group} doesn't divide; ROLL refuses it too")
        size, domains = size // group, _tags(file)
    else:
        domains = file.names(PROBABILITIES) or file.names("rewards")
        if file.names(PROBABILITIES) and not _exact(file):
            raise NotCarried("it is in the quotas, since the probabilities don't add up to 1", "not_needed")
    if len(domains) == 1 and not file.names(PROBABILITIES):
        yield at.set("domains", domains[0], "quota", value=size)
    else:
        yield at.set("batch_size", value=size)


def probability(at: At) -> Iterator[Setting]:
    """The share of a domain: int(p · batch), the last has the remainder, as here."""
    name, share = at.names[0], at.number()
    if _exact(at.file):
        yield at.set("domains", name, "proportion", value=share)
        return
    quota = _quotas(at.file).get(name, 0)
    if quota < 1:
        raise NotCarried("its share of a batch is less than one group, so ROLL never draws it", "not_needed")
    yield at.set("domains", name, "quota", value=quota, note="its share of rollout_batch_size")


def partition(at: At) -> Iterator[Setting]:
    """The environments of each tag: here the groups of each domain in a batch."""
    tags, parts = _tags(at.file), at.file.get(f"{TRAIN}.num_groups_partition")
    if len(tags) < 2:
        if at.key.endswith("tags") or not is_whole(at.file):
            yield at.set("domains", tags[0], "quota", value=_groups(at.file), note="groups in a batch")
            return
        raise NotCarried("all of a batch is of the one tag", "not_needed")
    if not isinstance(parts, list) or len(parts) != len(tags) or not all(isinstance(p, int) and p > 0 for p in parts):
        parts = [1] * len(tags)
    for tag, part in zip(tags, parts, strict=True):
        note = "there a share of the environments, here of a batch"
        yield at.set("domains", tag, "proportion", value=part / sum(parts), note=note)


def finish_batch(draft: Draft) -> None:
    """What isn't in the file, and what ROLL would not start with."""
    file, agentic = draft.file, draft.mode == "agentic"
    if not is_whole(file):
        draft.ask("group_size", value=8, what="responses to a prompt")
    else:
        draft_default = "train_env_manager.group_size" if agentic else "num_return_sequences_in_group"
        if not draft.has("group_size"):
            draft.put("group_size", value=1, origin=f"ROLL's default of {draft_default}")
    names = (_tags(file) if agentic else file.names(PROBABILITIES) or file.names("rewards")) or ("main",)
    if not draft.has("domains"):
        for name in names:
            if draft.has("batch_size"):
                draft.ask("domains", name, "proportion", value=1 / len(names), what="its share of a batch")
            else:
                draft.ask("domains", name, "quota", value=16, what="its groups in a batch")
    if agentic and is_whole(file):
        _starts(draft)


def _starts(draft: Draft) -> None:
    """Tell of settings that ROLL would refuse."""
    file = draft.file

    def read(key: str, default: int) -> int:
        return int(file.number(key, default))

    try:
        AgenticBatch(
            read(f"{TRAIN}.num_env_groups", 128), read(f"{TRAIN}.group_size", 1), read("rollout_batch_size", 128),
            read(f"{VAL}.num_env_groups", 128), read(f"{VAL}.group_size", 1), read("val_batch_size", 128),
            read("async_generation_ratio", 0), read(f"{TRAIN}.group_size_redundancy", 0),
            read(f"{TRAIN}.max_traj_per_env", -1), read(f"{TRAIN}.max_env_num_per_worker", 0),
        )  # fmt: skip
    except ConfigError as error:
        for problem in error.problems:
            draft.refuse(str(problem.path[0]), None, "not_needed", f"ROLL would not start: {problem.message}")
    except (ZeroDivisionError, OverflowError, ValueError):
        draft.refuse(TRAIN, None, "not_needed", "ROLL would not start: a number of environments is not positive")


def _exact(file: Foreign) -> bool:
    """Whether the probabilities mean here what they mean there: they add up to 1, and each domain has a group."""
    shares = _shares(file)
    return abs(sum(shares.values()) - 1) <= 0.01 and all(quota >= 1 for quota in _quotas(file).values())


def _shares(file: Foreign) -> dict[str, float]:
    return {name: float(file.number(f"{PROBABILITIES}.{name}", 0.0)) for name in file.names(PROBABILITIES)}


def _quotas(file: Foreign) -> dict[str, int]:
    """ROLL's own count."""
    size, shares = int(file.number("rollout_batch_size", 128)), _shares(file)
    quotas = {name: int(share * size) for name, share in shares.items()}
    if quotas:
        quotas[list(quotas)[-1]] += size - sum(quotas.values())
    return quotas


def _tags(file: Foreign) -> tuple[str, ...]:
    found = file.get(f"{TRAIN}.tags")
    return tuple(map(str, found)) if isinstance(found, list) and found else ("environment",)


def _groups(file: Foreign) -> int:
    size, group = file.number("rollout_batch_size", 128), file.number(f"{TRAIN}.group_size", 1)
    return max(int(size) // max(int(group), 1), 1)
