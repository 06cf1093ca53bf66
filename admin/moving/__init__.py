"""Moves of partitions between brokers and log directories: files, filters, throttles, progress."""
