"""Broker changes, controlled shutdown, offline log directories, producer id blocks."""
