"""The broker agent: hosts partition replicas on disk and obeys the controller (ARCHITECTURE.md)."""
