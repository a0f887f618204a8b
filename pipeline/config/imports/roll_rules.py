"""Rules of ROLL's keys about the run, its batches and its filters."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.roll_batch import is_whole
from pipeline.config.imports.table import Rule

DEFAULT_GROUP_FILTER = "roll.pipeline.agentic.agentic_pipeline.GroupFilter"
DROP_FLAG_FILTER = "roll.pipeline.agentic.env_manager.agent_native_env_manager.GroupFilter"


def steps(at: At) -> Iterator[Setting]:
    if at.value == -1:
        raise NotCarried("is -1, as long as the data lasts; here a run has a number of steps: write it in steps")
    yield at.set("steps", value=at.whole(1))


def eval_steps(at: At) -> Iterator[Setting]:
    if at.whole() and not (at.file.names("validation") or at.file.names("val_env_manager")):
        raise NotCarried("the file names no validation prompts; name eval_prompts, then evaluation.every", "not_needed")
    yield at.set("evaluation", "every", value=at.whole())


def async_ratio(at: At) -> Iterator[Setting]:
    ratio = at.number()
    yield at.set("async_ratio", value=ratio)
    yield at.set("max_staleness", value=ceil(ratio), note="groups older than that are given up")
    note = "a response goes on under a newer policy" if ratio > 0 else "generation stops while the policy changes"
    yield at.set("publication", value="refresh" if ratio > 0 else "drain", note=note)


def additional(at: At) -> Iterator[Setting]:
    if at.flag():
        note = "here over-sampling follows the measured acceptance, up to this factor"
        yield at.set("oversample_max", value=2.0, note=note)
    else:
        yield at.set("oversample_max", value=1.0, note="no prompts beyond a batch")


def prompt_length(at: At) -> Iterator[Setting]:
    yield at.set("max_prompt_tokens", value=at.whole(1))
    yield at.set("too_long", value="skip", note="longer prompts are left out")


def _kept_unfiltered(at: At, kind: str) -> str | None:
    """Why ROLL keeps every group in spite of this filter."""
    if at.file.get("generate_opt_level", 1) == 0:
        return "with generate_opt_level 0 ROLL hands its filter whole groups, which it keeps"
    alone = is_whole(at.file) and at.file.number("num_return_sequences_in_group", 1) == 1
    return "ROLL keeps groups of one" if alone and kind == "std_filter" else None


def filter_type(at: At) -> Iterator[Setting]:
    domain, kind = at.names[0], at.word("no_filter", "mean_filter", "std_filter")
    if why := _kept_unfiltered(at, kind):
        yield at.set("filters", domain, 0, "type", value="no_filter", note=f"{kind}, but {why}")
        return
    yield at.set("filters", domain, 0, "type", value=kind)
    if kind == "mean_filter":
        note = "its threshold_down is -1 unless given, and it keeps groups of one"
        yield at.set("filters", domain, 0, "compat", value="roll", note=note)


def filter_arg(name: str, kind: str) -> Rule:
    def rule(at: At) -> Iterator[Setting]:
        domain = at.names[0]
        chosen = at.file.get(f"rewards.{domain}.query_filter_config.type", "no_filter")
        if chosen != kind or _kept_unfiltered(at, kind):
            raise NotCarried(f"ROLL's {chosen} doesn't read it", "not_needed")
        if at.value in (float("inf"), float("-inf")):
            raise NotCarried("it is no bound", "not_needed")
        yield at.set("filters", domain, 0, name, value=at.number())

    return rule


def group_filter(at: At) -> Iterator[Setting]:
    name = at.word()
    if name == DEFAULT_GROUP_FILTER:
        yield at.set("filters", "default", 0, "type", value="no_filter", note="it keeps every group")
    elif name == DROP_FLAG_FILTER:
        yield at.set("filters", "default", 0, "type", value="drop_flag")
        yield at.set("guard", "default", "type", value="roll_ratio", note="its limit of half of all groups")
        yield at.set("guard", "default", "max_ratio", value=0.5)
        yield at.set("guard", "default", "scope", value="run", note="it counts the groups of all tags together")
    else:
        factory = f"my_package.filters:{name.rpartition('.')[2]}"
        yield at.set("filters", "default", 0, "type", value="custom")
        yield Setting(
            ("filters", "default", 0, "factory"),
            factory,
            f"TO WRITE: {name} anew (docs/filters.md, custom): here true keeps a group, in ROLL it drops it",
        )
