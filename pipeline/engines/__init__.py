"""Generation back ends."""
