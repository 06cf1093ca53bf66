"""A whole cluster in one process on virtual time; never imported by production code."""
