"""Every decision of the pipeline, as pure functions over plain values: no clock, no randomness, no IO."""
