"""Settings of a node: names, types, bounds and defaults, Kafka's keys, listeners, and the files they come from."""
