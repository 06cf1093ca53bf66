"""The one command, `klamm`: the only package that may name all others, each at the moment it is needed."""
