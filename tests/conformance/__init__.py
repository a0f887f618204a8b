"""The product's own functions against vectors recorded from other systems: `python -m tests.conformance PATH…`.

The families of vectors are in `families`: adapters that translate a case and never decide.
"""
