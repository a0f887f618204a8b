"""Which groups of a window are trained on, and how much: RAGEN's SNR-adaptive selection (docs/compatibility.md)."""

from pipeline.domain.selection.choose import rank as rank
from pipeline.domain.selection.choose import score as score
from pipeline.domain.selection.choose import select as select
from pipeline.domain.selection.report import spread as spread
from pipeline.domain.selection.report import zero_count as zero_count
from pipeline.domain.selection.rules import Problem as Problem
from pipeline.domain.selection.rules import SelectionRules as SelectionRules
from pipeline.domain.selection.rules import problems as problems
from pipeline.domain.selection.stops import SpreadWatch as SpreadWatch
from pipeline.domain.selection.stops import empty_stop as empty_stop
from pipeline.domain.selection.stops import updated_empties as updated_empties
from pipeline.domain.selection.weights import loss_scale as loss_scale
from pipeline.domain.selection.weights import soft_weights as soft_weights
