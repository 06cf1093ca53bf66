"""`klamm adopt` and `klamm leave`: klamm's controllers for an Apache Kafka cluster in ZooKeeper mode, and back again.

Reads ZooKeeper and asks each broker, by Kafka's requests; writes `/klamm/adoption`. It starts no process.
"""
