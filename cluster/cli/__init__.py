"""Holds what the command lines of all programs share: documents, tables, folders of the user."""
