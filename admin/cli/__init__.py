"""Holds the verbs of `klamm` that talk to a cluster, one file for each noun.

Results go to stdout, messages to stderr.

`launcher/__main__.py` imports the module of a command when it is run.
"""
