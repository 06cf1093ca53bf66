"""The Spark Structured Streaming job over the state-change logs; the only importer of pyspark."""
