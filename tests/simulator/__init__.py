"""All stages in one process, under seeded interleavings, faults and crashes."""
