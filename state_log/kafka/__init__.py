"""Apache Kafka's own state-change.log: what its lines say, as records of klamm's."""
