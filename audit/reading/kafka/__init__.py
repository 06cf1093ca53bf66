"""Apache Kafka's own state-change.log, as the audit reads it: ranges of files, levels, what is missing."""
