"""Running the audit on a Spark cluster: a cluster on this machine to try it on, and an example for spark-submit."""
