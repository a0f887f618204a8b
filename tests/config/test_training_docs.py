"""docs/training.md names every parameter of the training step, with the default that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pipeline.config.training import Correction, CorrectionFilter, DifficultyMask, ImportanceWeight, Loss, SampleMasks
from tests.config.test_filter_docs import default

TEXT = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
SECTIONS = {
    "## correction": Correction,
    "### A filter": CorrectionFilter,
    "### weight": ImportanceWeight,
    "## loss": Loss,
    "## sample_masks": SampleMasks,
    "### difficulty_mask": DifficultyMask,
}


def table(title: str) -> dict[str, str]:
    """The first table of parameters in a section, with their defaults."""
    body = re.split(r"^#", TEXT.partition(f"\n{title}\n")[2], flags=re.M)[0]
    rows = body.partition("| parameter | default | meaning |\n|---|---|---|\n")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]
    return {name: written for name, written, _ in cells}


@pytest.mark.parametrize("title", SECTIONS)
def test_each_parameter_is_there_with_its_default(title: str) -> None:
    fields = SECTIONS[title].model_fields
    assert table(title) == {name: "()" if field.default == () else default(field) for name, field in fields.items()}


def test_the_example_is_a_configuration(config) -> None:  # type: ignore[no-untyped-def]
    [example] = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)
    made = config(**yaml.safe_load(example))
    assert made.correction and made.loss and made.sample_masks
