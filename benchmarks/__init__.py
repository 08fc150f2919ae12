"""Measurements: `python -m benchmarks` runs all of them; `python -m benchmarks.checks` runs one."""
