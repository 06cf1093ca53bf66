"""Pure decisions: values in, values out. No clock, no randomness of their own, no logging, no I/O."""
