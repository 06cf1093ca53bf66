"""What every long-running program of ours needs: configuration, metrics, diagnostics, supervised tasks."""
