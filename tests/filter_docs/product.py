"""What the product's own functions make of the examples of filters, guards, predicates and selections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from pipeline.config import DecisionConfig
from pipeline.config.filters import Filter
from pipeline.config.guards import Guard as GuardConfig
from pipeline.config.predicates import Predicate
from pipeline.domain.events import Member
from pipeline.domain.filters.chain import Chain
from pipeline.domain.filters.guard import Guard, GuardState
from pipeline.domain.grouping import scores_of
from pipeline.domain.rules import DomainRules, FilterRule, GuardRule
from pipeline.domain.selection.choose import score, select
from pipeline.domain.selection.rules import SelectionRules
from pipeline.domain.selection.stops import SpreadWatch
from pipeline.domain.selection.weights import loss_scale, soft_weights
from pipeline.domain.vocabulary import Failure, FinishReason, Grading, Reason
from pipeline.sdk import Judged
from pipeline.verifiers.response_filter import Raised, ResponseFilter
from tests.domain.given import member

from .page import Row


def kinds(union: Any) -> dict[str, Any]:
    """The classes of a union of settings, by type."""
    return {get_args(c.model_fields["type"].annotation)[0]: c for c in get_args(get_args(union)[0])}


FILTERS, GUARDS, PREDICATES = kinds(Filter), kinds(GuardConfig), kinds(Predicate)
FACTORY = "tests.filter_docs.product:answering"


class Odd(Exception):
    """What a callable of a user's own raises."""


def answering(seed: int, options: Any) -> Callable[[Any], Any]:
    """A callable that answers as its options say: true, false, or raises."""

    def answer(judged: Any) -> bool:
        if options["it"] == "raises":
            raise Odd
        return bool(options["it"])

    return answer


def settings(model: Any, row: Row) -> dict[str, Any]:
    """The settings that a row gives, the others at their defaults."""
    given = {name: row[name] for name in model.model_fields if name in row}
    more = {"factory": FACTORY, "options": {"it": row.get("it")}} if "factory" in model.model_fields else {}
    return dict(model.model_validate({"type": row["type"], **given, **more}).model_dump(exclude={"type"}))


def group(row: Row) -> list[Member]:
    """`rewards`, or those of members `cut_off` besides; `versions` and ones broken by `flag` (`flagged`) by slot."""
    cut, flagged, flag = row.get("cut_off") or [], row.get("flagged") or [], row.get("flag", "env_failed")
    rewards = [float(r) for r in [*row.get("rewards", [0, 1]), *cut]]
    versions = row.get("versions") or [0] * len(rewards)
    whole = len(rewards) - len(cut)
    return [
        member(
            slot, reward, oldest_version=version, newest_version=version, **{flag: slot in flagged},
            finish_reason=FinishReason.LENGTH if slot >= whole else FinishReason.STOP,
        )
        for slot, (reward, version) in enumerate(zip(rewards, versions, strict=True))
    ]  # fmt: skip


def filtered(row: Row) -> Any:
    """The outcome of a chain of one filter, with what it measured where the row has that."""
    args = settings(FILTERS[row["type"]], row)
    args |= {"metric": "reward"} if "metric" in args else {}
    chain = Chain(DomainRules("d", 1, (FilterRule(row["type"], args),), ""), lambda rule: answering(0, row))
    who = group(row)
    found = chain.decide(who, len(who))
    told = {name: getattr(found, name) for name in ("measured", "threshold") if name in row}
    wrong = {name: value for name, value in told.items() if value != row[name]}
    end = " and the run ends" if found.ends_run else ""
    return f"{found.reason or 'kept'}{end}" if not wrong else f"{found.reason or 'kept'} with {wrong}"


def checked(row: Row) -> str:
    """The outcome of the checks before every chain."""
    failure, version = row.get("failure"), row.get("version", 0)
    told: dict[str, Any] = {"oldest_version": version, "newest_version": version}
    if failure:
        told |= {"failure": Failure(failure), "grading": Grading.FAILED}
    rewards = [None if r is None else float(r) for r in row["rewards"]]
    who = [member(slot, reward, **({} if slot else told)) for slot, reward in enumerate(rewards)]
    found = Chain(DomainRules("d", 1, (FilterRule("no_filter", {}),), "")).decide(who, row["size"])
    return str(found.reason or "kept")


def guarded(row: Row) -> str:
    """The outcome for each group of a row: `g` a good one, `r` one that a filter rejects."""
    if row["type"] == "no_guard":
        return " ".join("rejected" if g == "r" else "good" for g in row["groups"].split())
    guard, state = Guard(GuardRule(row["type"], settings(GUARDS[row["type"]], row))), GuardState()
    return " ".join(
        ("kept" if guard.keeps(state, Reason.ZERO_STD) else "rejected") if g == "r"
        else "good" if not guard.keeps(state, None) else "?"
        for g in row["groups"].split()
    )  # fmt: skip


def predicated(row: Row) -> str:
    """What the response filter says of a response."""
    plugin, predicate = {"factory": FACTORY}, {"type": row["type"], **settings(PREDICATES[row["type"]], row)}
    config = DecisionConfig.model_validate({
        "run": "r", "steps": 1, "prompts": plugin, "engine": plugin, "learner": plugin, "domains": {"d": {}},
        "response_filter": [predicate],
    })  # fmt: skip
    ids = row.get("ids", [])
    judged = Judged(row.get("text", ""), ids, row.get("tokens", len(ids)), row.get("finish", "stop"), 1.0, {})
    try:
        return "kept" if ResponseFilter(config).rejection(judged) is None else "rejected"
    except Raised as raised:
        return "rejected and the run ends" if raised.ends_run else "rejected"


def selected(row: Row) -> list[float]:
    """The scores of the groups that are kept, best first."""
    strategy, *end = str(row["type"]).split(", ")
    asked: dict[str, Any] = {name: row[name] for name in ("value", "eps", "include_zero") if name in row}
    asked |= {"mode": end[0]} if strategy == "top_p" and end else {"keep": end[0]} if end else {}
    scores = {f"{i:04}@0": float(s) for i, s in enumerate(row["scores"])}
    return [scores[gid] for gid in select(list(scores.items()), SelectionRules(strategy=strategy, **asked))]  # type: ignore[arg-type]


def ranked(row: Row) -> float | None:
    """The number that a group is ranked by."""
    who = [
        member(slot, float(reward), response_tokens=tokens, entropy=float(entropy))
        for slot, (reward, tokens, entropy) in enumerate(
            zip(row["rewards"], row["tokens"], row["entropies"], strict=True)
        )
    ]
    return score(scores_of(who), row["metric"])


def collapsed(row: Row) -> str:
    """Whether the deviations of rewards have collapsed, after 10 windows of `base` and so many more of `later`."""
    watch = SpreadWatch()
    seen = [watch.collapsed(std) for std in [row["base"]] * 10 + [row["later"]] * row["windows"]]
    return "yes" if seen[-1] else "no"


def weighed(row: Row) -> list[float]:
    """The weights of groups by their deviations."""
    return soft_weights(row["stds"])


def scaled(row: Row) -> float:
    """The factor on the loss for a share kept."""
    return loss_scale(row["loss_rescale"], row["kept"])


def seen_by_guard(row: Row) -> list[tuple[dict[str, Any], bool]]:
    """For each rejection of a row what a guard's rule may ask for, and whether it is kept."""
    told, outcomes = [], [o == "rejected" for o in row["outcome"].split()]
    for i, what in enumerate(row["outcome"].split()):
        newest = outcomes[max(0, i + 1 - row.get("window", i + 1)) : i]
        in_a_row = next((n for n, rejected in enumerate(reversed(outcomes[:i])) if not rejected), i)
        names = {"rejected": outcomes[:i].count(True), "groups": i + 1, "in_a_row": in_a_row}
        names |= {"seen": len(newest) + 1, "rejected_of_them": newest.count(True) + 1}
        if what != "good":
            told.append((names, what == "kept"))
    return told
