"""Prometheus: scrape configuration, rules, alerts and their tests."""
