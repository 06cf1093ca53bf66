"""Log compaction: the cleaner of an agent, which keeps the last record of each key.

`log_cleaner` chooses the dirtiest log; `log_cleaning` cleans it, piece by piece in worker threads; `batch_cleaning`
decides what stays of a batch, by the `offset_map`. What is chosen is in `broker_agent.decisions.compaction`.
"""
