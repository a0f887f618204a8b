"""Experiment trackers: a run's numbers, one row for each step, where a person keeps those of other runs too."""

from pipeline.trackers.kinds import open_trackers as open_trackers
from pipeline.trackers.rows import Rows as Rows
