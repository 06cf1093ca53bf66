"""The log on disk: segments, indexes, epoch history, checkpoints, recovery.

`log_directories` holds all logs, which `opening` found; a `partition_log` is made of `segments`, an `epoch_history`
and `producer_state`, and its `log_flusher` brings them to the device. `disk` is all that they need of an operating
system, so that the simulator can take its place. Files are laid out as Kafka's.
"""
