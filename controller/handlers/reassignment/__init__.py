"""Partition reassignment."""
