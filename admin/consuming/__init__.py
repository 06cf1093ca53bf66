"""The consumer: offsets, batches, the history of records, load."""
