"""Spark itself: its session, its settings, and what it needs on other machines."""
