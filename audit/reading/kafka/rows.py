"""Which rows of a table come from logs of Apache Kafka."""

from typing import Final

import numpy
import pyarrow

from audit.records.vectors import ABSENT, Flags, Keys, is_one_of, longs, ranked
from state_log.kafka.lines import NODE
from state_log.record import Kind

_SALT: Final = numpy.uint64(0xD6E8FEB86659FD93)


def kafka_keys(key: Keys) -> Keys:
    """The keys that the partitions with these keys have in Kafka's logs; aligned with `key`.

    They differ from those of klamm's logs, whatever the names of the partitions are. 0 stays 0.
    """
    own = numpy.where(key == 0, key, key ^ _SALT)
    return numpy.where((key != 0) & (own == 0), _SALT, own)


def are_kafka(rows: pyarrow.Table) -> Flags:
    """Whether a row comes from a log of Apache Kafka, by its `node`; aligned with the rows."""
    rank, nodes = ranked(rows["node"])
    # The last one is for rows without a node, whose rank is -1.
    return numpy.array([*(node.startswith(NODE) for node in nodes), False], bool)[rank]


def is_first_role(rows: pyarrow.Table) -> Flags:
    """Whether a row is a role at the epochs with which every partition begins, and to which it never returns; aligned.

    Before Kafka 3.0 roles have no partition epoch.
    """
    first = (longs(rows["leader_epoch"]) == 0) & numpy.isin(longs(rows["partition_epoch"]), [0, ABSENT])
    return numpy.asarray(first & is_one_of(rows["kind"], [Kind.ROLE.value]), bool)


def without_kafka(rows: pyarrow.Table) -> pyarrow.Table:
    """The rows of klamm's own logs."""
    return _without(rows, are_kafka(rows))


def without_kafka_requests(rows: pyarrow.Table) -> pyarrow.Table:
    """The rows without the requests in Kafka's logs: a broker that receives one may still refuse it as stale."""
    return _without(rows, are_kafka(rows) & is_one_of(rows["kind"], [Kind.LOADED.value]))


def _without(rows: pyarrow.Table, flags: Flags) -> pyarrow.Table:
    return rows.filter(pyarrow.array(~flags)) if flags.any() else rows
