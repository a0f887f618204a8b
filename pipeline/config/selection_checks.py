"""What must hold between a selection and the rest of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from pipeline.config.errors import Problem
from pipeline.config.models import DecisionConfig
from pipeline.config.selection import Ranked
from pipeline.domain.selection import problems

_MOST_ENTROPY = 12.0
"""Of a token, in nats: that of a uniform choice among 160,000."""
_SPREADS = ("reward_variance", "reward_std", "reward_variance_sq", "entropy_variance", "entropy_std")
_ENTROPIES = ("entropy", "entropy_variance", "entropy_std")


def _one_domain(config: DecisionConfig) -> Iterator[Problem]:
    if config.selection is not None and len(config.domains) > 1:
        message = f"compares groups of one domain, and there are {len(config.domains)}; remove it, or run them apart"
        yield Problem("selection_domains", ("selection",), message)


def _fresh(config: DecisionConfig) -> Iterator[Problem]:
    if config.selection is not None and config.selection.refill and config.max_staleness < 1:
        message = (
            "is 0, but with selection.refill a batch has groups of several windows, so that some may be a version old: "
            "raise max_staleness to 1, or set selection.refill to false"
        )
        yield Problem("staleness_too_small", ("max_staleness",), message)


def _group_of_one(config: DecisionConfig) -> Iterator[Problem]:
    selection = config.selection
    if not isinstance(selection, Ranked) or config.group_size > 1:
        return
    if selection.metric in _SPREADS or selection.weights == "soft":
        what = f"metric {selection.metric}" if selection.metric in _SPREADS else "weights soft"
        message = f"is 1, but selection's {what} needs a spread of rewards; expected at least 2"
        yield Problem("group_of_one", ("group_size",), message)


def _keeps_nothing(config: DecisionConfig) -> Iterator[Problem]:
    for problem in problems(config.selection.rules()) if isinstance(config.selection, Ranked) else ():
        if problem.certain:
            yield Problem("selects_nothing", ("selection",), f"keeps no group of any window: {problem.text}")


def may_keep_nothing(config: DecisionConfig) -> Iterator[Problem]:
    """Selections that keep nothing, or too much, where the data is so: a caution."""
    selection = config.selection
    if not isinstance(selection, Ranked):
        return
    for problem in problems(selection.rules()):
        message = f"may keep no group of a window: {problem.text}"
        yield Problem("may_select_nothing", ("selection",), message)
    if selection.strategy == "top_p" and selection.mode == "linear" and 0 < selection.value < 1:
        yield from _out_of_reach(config, selection)
    if selection.refill and config.window() > (config.max_staleness + 1) * sum(config.quotas().values()):
        message = (
            f"is {config.window()}: if it keeps all, its last groups wait for more batches than max_staleness "
            f"{config.max_staleness} allows, and expire; keep fewer, raise max_staleness, or lower it"
        )
        yield Problem("window_may_expire", ("selection", "window"), message)
    if selection.metric in _ENTROPIES:
        message = f"is {selection.metric}: a group whose engine reports no entropy is never kept"
        yield Problem("needs_entropy", ("selection", "metric"), message)


def _out_of_reach(config: DecisionConfig, selection: Ranked) -> Iterator[Problem]:
    """A window keeps nothing unless its scores add up to more than eps / value."""
    each = {"reward_sum": config.group_size, "length": inf, **dict.fromkeys(_ENTROPIES, _MOST_ENTROPY)}
    most = config.window() * each.get(selection.metric, 1.0)
    if selection.eps >= selection.value * most:
        message = (
            f"is {selection.eps:g}: a window keeps no group unless its scores add up to more than eps / value = "
            f"{selection.eps / selection.value:g}, and those of {config.window()} groups hardly exceed {most:g} (with "
            "rewards up to 1): lower it"
        )
        yield Problem("may_select_nothing", ("selection", "eps"), message)


SELECTION_CHECKS = (_one_domain, _fresh, _group_of_one, _keeps_nothing)
