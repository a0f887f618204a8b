"""Prompt sources."""
