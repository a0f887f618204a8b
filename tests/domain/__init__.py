"""The rules of the pure stages, as sentences (docs/filters.md, docs/architecture.md)."""
