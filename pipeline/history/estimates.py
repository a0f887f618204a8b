"""Where a comparison of filters says what would have been, and where it can only guess: a run with other verdicts would
have sampled other groups."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain.rules import Rules


def estimates(
    rules: Rules, other: Rules, judged: int, accepted: int, would: int, changed_batch: int | None
) -> Iterator[str]:
    """A sentence for each way in which a run with the other filters would have had other data."""
    if changed_batch is not None:
        yield (
            f"from batch {changed_batch} on the policy would have been trained on other groups, and would have sampled "
            "other responses"
        )
    if would != accepted:
        fewer, many = "fewer" if would > accepted else "more", abs(would - accepted)
        yield f"{many:,} {fewer} rejections would have asked for {many:,} {fewer} replacements ({rules.replacement})"
        if rules.oversample_max > 1:
            was, would_be = _share(accepted, judged), _share(would, judged)
            yield (
                f"over-sampling (up to {rules.oversample_max:g}) follows acceptance, which was {was} and would "
                f"have been {would_be}: other numbers of groups would have been opened"
            )
    if _guarded(rules, other) and (changed_batch is not None or would != accepted):
        yield "a guard's verdict follows from the groups before it, and a run with these filters would have had others"
    if rules.selection is not None:
        yield (
            f"the run selects from windows of {rules.selection.window} accepted groups; batches are counted here by "
            "quota, as if every accepted group were trained on"
        )
    if other.filter_partitions == 1 < rules.filter_partitions and any(d.guard for d in other.domains):
        yield (
            "a guard counts groups in their order, here the ledger's; in a run with one filter partition it may have "
            "been another"
        )


def how_exact(rules: Rules, other: Rules) -> str:
    """How far the verdicts themselves can be relied on. A guard's follow from the groups before."""
    if not _guarded(rules, other):
        return "The verdicts are exact: group filters look at nothing but the group."
    return (
        "What filters say is exact: they look at nothing but the group. What a guard keeps follows from the groups "
        "before it: exact for those of this run, in their order, and an estimate of a run that would have had others."
    )


def _guarded(rules: Rules, other: Rules) -> bool:
    return any(domain.guard for each in (rules, other) for domain in each.domains)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
