"""Benchmarks: they measure and print, they never pass or fail on time."""
