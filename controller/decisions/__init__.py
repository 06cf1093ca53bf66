"""Decisions of the controller: pure functions from values to values, without I/O, clock or own randomness.

`context_view` is what they may read of the context. Files are grouped by subject. Every result is a frozen value: what
to write, which requests to send, what failed and why.
"""
