"""`tamis demo`: the whole pipeline as processes on this machine, watched until a small policy has learned."""
