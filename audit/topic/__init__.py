"""Kafka topics with the lines of state-change logs: `klamm audit publish` ships them, `klamm audit run` reads them."""
