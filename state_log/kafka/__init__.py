"""Apache Kafka's own state-change.log: what its lines say, as klamm's records."""
