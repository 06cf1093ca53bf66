"""The audit: a Spark Structured Streaming job that checks the invariants of state-change logs, and its report.

`source` tails the logs, `rules` keeps the state of `state_log.invariants` in Spark, `job` runs the stream,
`report` reads what it wrote. Only `source`, `rules`, `schema` and `job` import pyspark.
"""
