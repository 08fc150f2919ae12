"""All measurements, one after the other."""

from benchmarks import checks

checks.main()
