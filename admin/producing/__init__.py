"""The producer: batches, idempotence, what becomes of records, load."""
