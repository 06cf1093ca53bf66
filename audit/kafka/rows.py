"""Which rows of a table are of Apache Kafka's logs."""

import numpy
import pyarrow
import pyarrow.compute

from audit.kafka.log_state import NODE
from audit.vectors import Flags, is_one_of
from state_log.record import Kind


def are_kafka(rows: pyarrow.Table) -> Flags:
    """By the `node`."""
    found = pyarrow.compute.starts_with(rows["node"].cast(pyarrow.string()), NODE)
    return numpy.asarray(pyarrow.compute.fill_null(found, False).combine_chunks().to_numpy(zero_copy_only=False), bool)


def without_kafka(rows: pyarrow.Table) -> pyarrow.Table:
    """The rows of klamm's own logs."""
    return rows.filter(pyarrow.array(~are_kafka(rows)))


def without_kafka_requests(rows: pyarrow.Table) -> pyarrow.Table:
    """The rows without the requests in Kafka's logs: a broker that receives one may still refuse it as stale."""
    return rows.filter(pyarrow.array(~(are_kafka(rows) & is_one_of(rows["kind"], [Kind.LOADED.value]))))
