"""Used by every long-running program: identity, diagnostics, open files, health, log lines, the ZooKeeper client."""
