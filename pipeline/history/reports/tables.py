"""The tables of a report: each domain by itself; rejections with invalid, low-information and system apart; guards and
shadows where there are any."""

from __future__ import annotations

from typing import Any, Final

from pipeline.domain.vocabulary import Category
from pipeline.history.view import RunView

MEANING: Final = {
    Category.LOW_INFORMATION: "The group was whole and taught nothing: look at your prompts and filters.",
    Category.INVALID: "The group was broken: look at your verifiers, environments and limits.",
    Category.SYSTEM: "The machinery lost it: look at processes and brokers.",
}


def domains(view: RunView) -> list[dict[str, Any]]:
    """A row for each domain, in the order of the configuration."""
    quotas = {d.name: d.quota for d in view.rules.domains} if view.rules else {}
    rows = []
    for name, d in view.groups.domains.items():
        by_category = [d.rejections_in(category) for category in MEANING]
        counts = [d.kept_by_guard, d.deselected, *by_category, sum(d.expired.values()), d.replacements]
        counts.append(sum(d.waived.values()))
        median = d.assembly.quantile(0.5)
        values = [f"{d.opened:,}", f"{d.judged:,}", f"{d.accepted:,} ({percent(d.accepted, d.judged)})"]
        values += [f"{many:,}" for many in counts]
        values.append("–" if median is None else f"{median / 1000:.2f} s")
        rows.append({"domain": name, "quota": quotas.get(name, "–"), "values": values})
    return rows


def rejections(view: RunView) -> list[dict[str, Any]]:
    """The rejections of each category by domain, reason and filter, the most frequent first."""
    made = []
    for category, meaning in MEANING.items():
        found = [(name, *row) for name, d in view.groups.domains.items() for row in d.by_category(category)]
        found.sort(key=lambda row: -row[3])
        rows = [dict(zip(("domain", "reason", "filter", "groups"), row, strict=True)) for row in found]
        made.append({"name": category.replace("_", " ").capitalize(), "meaning": meaning, "rows": rows})
    return made


def guards(view: RunView) -> list[dict[str, Any]]:
    """What each guard remembered at the last verdict, and how many groups it kept."""
    found = view.groups.domains.items()
    return [{"domain": name, "state": {"kept": d.kept_by_guard, **_words(d.guard)}} for name, d in found if d.guard]


def shadows(view: RunView) -> list[dict[str, Any]]:
    """What each shadow filter said beside what was decided."""
    return [
        {
            "domain": domain,
            "name": name,
            "counts": {
                "asked": s.asked,
                "keeps": s.accepts,
                "keeps, though rejected": s.only_there,
                "rejects, though accepted": s.only_here,
                **{f"rejects: {reason}": many for reason, many in sorted(s.rejects.items())},
            },
        }
        for (domain, name), s in view.groups.shadows.found.items()
    ]


def percent(part: float, whole: float) -> str:
    """A share for people."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _words(state: dict[str, float]) -> dict[str, float]:
    return {name.replace("_", " "): value for name, value in state.items()}
