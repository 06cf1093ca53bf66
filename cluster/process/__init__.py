"""Used by every long-running program: configuration, metrics, diagnostics, supervised tasks."""
