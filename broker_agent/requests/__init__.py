"""What a broker answers: control requests, produce, fetch, offsets, deletions of records, descriptions."""
