"""The audit: a Spark Structured Streaming job that checks the invariants of state-change logs, and its report.

`job` starts the stream (`spark`), whose source is `reading`; `batches` checks each bucket of a batch by `rules`, writes
`tables` to `storage` and commits; `report` says what was found, without Spark. `chains` and `verification` check the
lines themselves, `topic` reads and writes Kafka topics, `cli` and `commands` are `klamm audit`. `records`, `chains`,
`rules`, `storage` and `tables` do not import pyspark.
"""
