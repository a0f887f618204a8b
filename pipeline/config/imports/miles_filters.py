"""MILES' filter of groups: the built-in one, which a switch turns on, or one of your own."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.foreign import Foreign
from pipeline.config.imports.table import Draft

ZERO_STD = "miles.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std"
FINISHED = "open_instruct.miles.rewards.truncation.filter_finished_reward_variance"
EXCLUDE_TRUNCATED = "open_instruct.miles.rewards.truncation.exclude_truncated"
SWITCHES = ("training.filter_zero_std_groups", "core.filter_zero_std_groups")
PATH = "miles.dynamic_sampling_filter_path"


def switch(at: At) -> Iterator[Setting]:
    """The built-in filter, on or off."""
    on = at.flag()
    other = next(key for key in SWITCHES if key != at.key)
    if at.key == SWITCHES[1] and isinstance(at.file.get(other), bool) and at.file.get(other) is not on:
        raise NotCarried(f"{other} says otherwise, and it counts")
    if _own(at.file):
        yield at.set("filter_zero_std_groups", value=on)
    elif on:
        yield from _builtin(at)
    else:
        yield at.set("filters", "default", 0, "type", value="no_filter")


def path(at: At) -> Iterator[Setting]:
    """The filter by its path. With the switch on, one of your own is refused, there and here."""
    name = at.word()
    if name in (ZERO_STD, FINISHED):
        if at.file.get(SWITCHES[0], at.file.get(SWITCHES[1])) is False:
            raise NotCarried("filter_zero_std_groups is false, which MILES refuses beside it")
        yield from _builtin(at)
        return
    factory = f"my_package.filters:{name.rpartition('.')[2]}"
    yield at.set("filters", "default", 0, "type", value="custom")
    yield Setting(
        ("filters", "default", 0, "factory"),
        factory,
        f"TO WRITE: {name} anew (docs/filters.md, custom): it gets the group's members, and true keeps it",
    )


def post_process(at: At) -> Iterator[Setting]:
    """Truncated responses leave the baseline and the loss."""
    if at.word() != EXCLUDE_TRUNCATED:
        raise NotCarried("what it does to rewards can't be known; do it in a verifier, or in the learner")
    yield at.set("advantages", "exclude_truncated", value=True)
    yield at.set("sample_masks", "max_len_mask", value=True, note="their tokens leave the loss")


def finish(draft: Draft) -> None:
    """The switch is on where the file doesn't say; and outside refresh a group is of one version."""
    default = f"MILES' default of {SWITCHES[0]}"
    if not draft.has("filters"):
        for setting in _builtin(At(SWITCHES[0], True, (), draft.file, "MILES'")):
            draft.settings[setting.path] = setting
    elif _own(draft.file) and not draft.has("filter_zero_std_groups"):
        draft.put("filter_zero_std_groups", value=True, origin=default)
    if draft.file.get("core.publication_mode", "barrier") != "refresh":
        place = len({part[2] for part in draft.settings if part[:2] == ("filters", "default")})
        origin = "MILES' way outside refresh: a group of several policy versions is rejected"
        draft.put("filters", "default", place, "type", value="provenance", origin=origin)
        draft.put("filters", "default", place, "one_version", value=True, origin=origin)


def _own(file: Foreign) -> bool:
    """Whether the file names a filter of the user's own."""
    return file.get(PATH) not in (None, ZERO_STD, FINISHED)


def _builtin(at: At) -> Iterator[Setting]:
    finished = at.file.get("miles.custom_reward_post_process_path") == EXCLUDE_TRUNCATED
    note = "over the responses that were finished" if finished else ""
    kind = "finished_zero_std" if finished or at.value == FINISHED else "zero_std"
    yield at.set("filters", "default", 0, "type", value=kind, note=note)
    yield at.set("filters", "default", 0, "tol", value=1e-8, note="its own tolerance")
