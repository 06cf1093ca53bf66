"""Measurements of the whole system at work, on real processes; each prints figures and checks what it measured."""
