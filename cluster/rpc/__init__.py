"""The wire: generated messages (`v1/`), one codec between them and the domain types, channel options."""
