"""Grafana: dashboards, described in Python, and provisioning."""
