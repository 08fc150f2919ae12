"""Measurements: what takes how long, and what trains to what. `python -m benchmarks` runs them."""
