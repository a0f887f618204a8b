"""Scoring back ends."""
