"""Environments that ship with Tamis."""
