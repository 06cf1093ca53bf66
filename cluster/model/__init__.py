"""Values that every program knows: brokers, partitions, releases, bounds, errors and the text of messages."""
