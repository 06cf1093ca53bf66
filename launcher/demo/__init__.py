"""`klamm demo`: failures under load, on klamm's brokers or Kafka's, and what became of the acknowledged records."""
