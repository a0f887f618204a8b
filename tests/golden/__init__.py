"""A run that was recorded once, as Avro bytes in JSON lines, and what its stages made of it.

    python -m tests.golden.record            records another one, with its pins
    python -m tests.golden.record --pins     pins what this release makes of the one that is there

A test replays it. Where that comes out otherwise, the stages decide otherwise than the release that recorded it: raise
their decision version and say so in the changelog.
"""
