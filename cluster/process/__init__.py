"""Holds what every long-running program uses: identity, diagnostics, open files, health, log lines, the ZooKeeper
client.
"""
