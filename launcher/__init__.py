"""The `klamm` command: the only package that may name all others, by lazy import."""
