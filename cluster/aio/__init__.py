"""Helpers for asyncio: tasks, slices of long loops, waiting requests, threads, and the clock."""
