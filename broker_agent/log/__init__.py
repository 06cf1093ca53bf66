"""The log on disk: segments, indexes, leader epochs, checkpoints, recovery.

`opening` loads all logs into `log_directories`; a `partition_log` consists of `segments`, an `epoch_history` and
`producer_state`, and its `log_flusher` flushes them. `disk` is the interface to the operating system, which the
simulator implements, too. The file layout is Kafka's.
"""
