"""Which rows of a table are of Apache Kafka's logs."""

import numpy
import pyarrow
import pyarrow.compute

from audit.kafka.log_state import NODE
from audit.vectors import ABSENT, Flags, is_one_of, longs
from state_log.record import Kind


def are_kafka(rows: pyarrow.Table) -> Flags:
    """By the `node`."""
    found = pyarrow.compute.starts_with(rows["node"].cast(pyarrow.string()), NODE)
    return numpy.asarray(pyarrow.compute.fill_null(found, False).combine_chunks().to_numpy(zero_copy_only=False), bool)


def is_first_role(rows: pyarrow.Table) -> Flags:
    """Which roles have the epochs with which every partition begins, and to which it never returns. Before Kafka 3.0
    they have no partition epoch.
    """
    first = (longs(rows["leader_epoch"]) == 0) & numpy.isin(longs(rows["partition_epoch"]), [0, ABSENT])
    return numpy.asarray(first & is_one_of(rows["kind"], [Kind.ROLE.value]), bool)


def without_kafka(rows: pyarrow.Table) -> pyarrow.Table:
    """The rows of klamm's own logs."""
    return rows.filter(pyarrow.array(~are_kafka(rows)))


def without_kafka_requests(rows: pyarrow.Table) -> pyarrow.Table:
    """The rows without the requests in Kafka's logs: a broker that receives one may still refuse it as stale."""
    return rows.filter(pyarrow.array(~(are_kafka(rows) & is_one_of(rows["kind"], [Kind.LOADED.value]))))
