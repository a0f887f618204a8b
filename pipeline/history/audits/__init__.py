"""Whether a run keeps its invariants, and replay gives what was recorded."""
