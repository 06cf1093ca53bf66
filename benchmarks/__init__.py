"""Benchmarks of the whole system on real processes; each prints figures and verifies the result."""
