"""Group filters: each is a pure function from a group's members to a finding; the chain decides by the first."""
