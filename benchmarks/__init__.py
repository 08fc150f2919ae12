"""Measurements: what trains to what, and what is how fast. `python -m benchmarks` runs them."""
