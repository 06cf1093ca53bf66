"""Metrics of a process: counters, gauges and timers, their catalogue, and the server that Prometheus scrapes."""
