"""The commands and options of `klamm audit`."""
