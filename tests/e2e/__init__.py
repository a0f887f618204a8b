"""Whole runs: real consumer processes, the real broker, the real Redis."""
