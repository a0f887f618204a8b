"""docs/filters.md says what the code does, and the check of it can fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.domain import lead
from pipeline.domain.filters import level
from pipeline.domain.filters.guard import GUARDS
from pipeline.domain.issuing import Issuer
from pipeline.domain.selection import choose, rules

from .check import problems
from .formula import value_of
from .page import sections

TEXT = (Path(__file__).parents[2] / "docs" / "filters.md").read_text()
FALSE = [
    ("mean(rewards) ≤ threshold_down", "mean(rewards) < threshold_down"),
    ("mean(rewards) ≥ threshold_up", "mean(rewards) > threshold_up"),
    ("`std(rewards, ddof) ≤ std_threshold", "`std(rewards, ddof) < std_threshold"),
    ("`not std(rewards, 1) > tol`. Exactly", "`not std(rewards, 1) ≥ tol`. Exactly"),
    ("`not std(rewards, 1) > tol`. Exactly", "`not std(rewards, 0) > tol`. Exactly"),
    ("| [1] | [0, 0, 0] | 1 | 2 | insufficient", "| [1] | [0, 0, 0] | 1 | 1 | insufficient"),
    ("`not low ≤ mean(rewards) ≤ high`", "`not low < mean(rewards) ≤ high`"),
    ("| reward_variance | `std(rewards, 1)` |", "| reward_variance | `std(rewards, 0)` |"),
    ("| reward_variance_sq | `std(rewards, 1) · std(rewards, 1)` |", "| reward_variance_sq | `std(rewards, 1)` |"),
    ("`score ≥ value · max(scores) − 1e-10`", "`score > value · max(scores)`"),
    ("`sum(kept) ≥ value · sum(scores) − eps`", "`sum(kept) ≥ value · sum(scores)`"),
    ("`probability(kept, scores) ≥ value`", "`probability(kept, scores) > value`"),
    ("`(rejected + 1) / groups > max_ratio`", "`rejected / groups >= max_ratio`"),
    ("`(rejected + 1) / groups > max_ratio`", "`(rejected + 1) / groups >= max_ratio`"),
    ("rejected_of_them / seen > max_ratio", "rejected_of_them / seen ≥ max_ratio"),
    ("`in_a_row ≥ keep_after`. Origin", "`in_a_row > keep_after`. Origin"),
    ("| raise | the run ends as starved |", "| raise | the run goes on |"),
    ('| starvation.policy | "raise" |', '| starvation.policy | "wait" |'),
    ('| replacement | "next_prompt" |', "| replacement | |"),
    ('| expired_replacement | "same_prompt" |', '| expired_replacement | "next_prompt" |'),
    ("| same_prompt | | same prompt, same start |", "| same_prompt | | next prompt |"),
    ("| empty_stop_steps | 5 |", "| empty_stop_steps | 50 |"),
    ("at most `assembly.max_rounds` rounds", "at most `assembly.max_tries` rounds"),
    ("| assembly.max_rounds | 5 |", "| assembly.max_tries | 5 |"),
    ("`round < max_rounds`", "`round ≤ max_rounds`"),
    ("| assembly.lease | 5m |", "| assembly.lease | 5s |"),
    ("| assembly.deadline | 30m |", "| assembly.deadline | 30 |"),
    ("| payload.max | 1MiB |", "| payload.max | 1MB |"),
    ("| starvation.no_progress | 30m |", "| starvation.no_progress | 30h |"),
    ("`0 < no_progress ≤ idle`", "`0 < no_progress < idle`"),
    ("accepted < min_acceptance · window`", "accepted ≤ min_acceptance · window`"),
    ("| starvation.window | 100 |", "| starvation.window | 10 |"),
    ("acceptance + 0.1 · (accepted", "acceptance + 0.2 · (accepted"),
    ("acceptance), 0.05), 1)`", "acceptance), 0.01), 1)`"),
    ("ceil(missing · oversample_max))`", "ceil(missing · oversample_max) + 1)`"),
    ("| oversample_max | 2.0 |", "| oversample_max | 3.0 |"),
    ("ceil(1.5 · largest)", "ceil(2 · largest)"),
    ("`ceil(ready · async_ratio) + ready`", "`ceil(ready · async_ratio)`"),
    ("| max_staleness | `ceil(async_ratio)` |", "| max_staleness | `int(async_ratio)` |"),
    ("| prefetch | `min(int(async_ratio), 1)` |", "| prefetch | `int(async_ratio)` |"),
    ("`behind > max_staleness`", "`behind ≥ max_staleness`"),
    ("`untrained ≤ prefetch`", "`untrained < prefetch`"),
    ("`max_attempts == 0 or attempt < max_attempts`", "`max_attempts == 0 or attempt ≤ max_attempts`"),
    ("`mean(rewards) ≥ exclude_above_pass_rate`", "`mean(rewards) > exclude_above_pass_rate`"),
    ("| [0.35, 0.35, 0.3] | [3, 3, 4] |", "| [0.35, 0.35, 0.3] | [4, 3, 3] |"),
    ("| any | [1, null, 0] | [1, null] |", "| any | [1, null, 0] | [1, 0] |"),
    ("`tokens > max_prompt_tokens`", "`tokens ≥ max_prompt_tokens`"),
    ("| error | the run ends as failed |", "| error | skipped |"),
    ("`tokens < value`", "`tokens ≤ value`"),
    ("`tokens > value`", "`tokens ≥ value`"),
    ("`repeated(ids, ngram) > share`", "`repeated(ids, ngram) ≥ share`"),
    (
        "| keep | raises | kept |\n| raise | raises | filter_error",
        "| keep | raises | custom |\n| raise | raises | filter_error",
    ),
    ("`later < 0.1 · base and windows ≥ 10`", "`later ≤ 0.1 · base and windows ≥ 10`"),
    ("Reasons: `mean_low`, `mean_high`.", "Reasons: `mean_low`, `band`."),
    ("for one of these reasons:\n`zero_std`, ", "for one of these reasons:\n"),
    ('| publication | "drain" | `drain` or `refresh` |', '| publication | "refresh" | `drain` or `refresh` |'),
    ("Reason: `deadline`. Rule", "Reason: `low_acceptance`. Rule"),
    ("Reason: GroupExpired, `stale`.", "Reason: GroupExpired."),
    ("| [null, 1] | timeout | | timeout |", "| [null, 1] | timeout | | ungraded |"),
    ("zero_std → std_filter →", "std_filter → zero_std →"),
    ("| `surplus` |", "| `overflow` |"),
    ("Runs in the monitor.", "Runs in the scorer."),
]


def test_the_page_says_what_the_code_does() -> None:
    assert problems(TEXT) == []


@pytest.mark.parametrize(("true", "false"), FALSE)
def test_a_falsehood_is_told(true: str, false: str) -> None:
    words = r"\s+".join(map(re.escape, true.split()))
    text, found = re.subn(words, lambda _: false, TEXT, count=1)
    assert found and problems(text, TEXT)


@pytest.mark.parametrize("title", sections(TEXT))
def test_a_section_without_its_origin_or_its_examples_is_told(title: str) -> None:
    before, head, after = TEXT.partition(f"### {title}\n")
    assert any(title in told for told in problems(before + head + after.replace("Origin:", "From:", 1), TEXT))
    if examples := sections(TEXT)[title].examples:
        bare = re.sub(r"^\|.* outcome \|$", "| a | b |", after, count=1, flags=re.M)
        assert examples and any(title in told for told in problems(before + head + bare, TEXT))


def test_code_that_decides_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name, changed, title in (
        (lead, "ACCEPTANCE_WEIGHT", 0.2, "policy: measured acceptance"),
        (lead, "ACCEPTANCE_RANGE", (0.1, 1.0), "policy: measured acceptance"),
        (lead, "SIZE_MARGIN", 2.0, "policy: payload.max"),
        (level, "mean", lambda values: sorted(values)[len(values) // 2], "mean_filter"),
        (choose, "ZERO", 0.3, "strategy: min_p, largest"),
        (Issuer, "note_pass_rate", lambda *given: None, "policy: exclude_above_pass_rate"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, changed)
            assert any(told.startswith(title) for told in problems(TEXT)), name
    monkeypatch.setitem(
        GUARDS, "roll_ratio", lambda args: lambda state: (state.filtered + 1) / (state.total + 1) >= 0.5
    )
    assert any(told.startswith("roll_ratio") for told in problems(TEXT))


def test_a_formula_is_a_rule_and_nothing_else() -> None:
    assert value_of("2 · a − 1 if a ≥ 1 else 0", {"a": 3}) == 5
    assert value_of("a ≤ bound", {"a": 3, "bound": None}) is False
    with pytest.raises(ValueError, match="is no part of a rule"):
        value_of("[a for a in (1, 2)]", {})
    assert rules.ZERO == 1e-10
