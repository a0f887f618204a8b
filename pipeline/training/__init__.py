"""Batches to the device, advantages, losses, and the demo learner."""
