"""Requests that every process handles, and the stream of cluster events."""

from typing import Annotated, Final

from msgspec import Struct

from cluster.model import bounds
from cluster.model.broker import (
    NO_LEADER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    Offset,
)
from cluster.requests.field_types import AnyBrokerId, Int32, PartitionIndex, String, TopicName
from cluster.requests.request import RequestFor

NO_ZOOKEEPER: Final = "cannot reach ZooKeeper"
"""What a controller answers that has no connection to it; clients name it as the cause when nobody else answers."""


class DescribeClusterRequest(RequestFor["DescribeClusterResponse"], frozen=True):
    pass


class DescribedBroker(Struct, frozen=True):
    """`state`: `running`, or `shutting_down` after a controlled shutdown request until the broker stops."""

    id: BrokerId
    endpoint: Endpoint
    epoch: BrokerEpoch
    rack: str | None = None
    state: str = "running"


class DescribedController(Struct, frozen=True):
    """A controller candidate. `unfit`: why it does not stand for election; empty if it does."""

    id: ControllerId
    address: str
    unfit: str = ""


class DescribeClusterResponse(Struct, frozen=True):
    """`controller_address` is empty and `controller_id` -1 while no controller is active.

    `controllers`: all registered candidates; empty if the responding node cannot read them. `broker_protocol`: `kafka`
    if the brokers are of Apache Kafka, which answer none of klamm's requests. `dead_brokers`: those that host replicas
    and are not registered, by the active controller.
    """

    cluster_id: str
    controller_id: ControllerId
    controller_address: str
    controller_epoch: ControllerEpoch
    brokers: tuple[DescribedBroker, ...]
    node_id: int = -1
    node_role: str = ""
    controllers: tuple[DescribedController, ...] = ()
    broker_protocol: str = ""
    dead_brokers: tuple[BrokerId, ...] = ()


class ReadStateChangesRequest(RequestFor["ReadStateChangesResponse"], frozen=True):
    """Read this node's state-change log; an empty `topic` means all, `partition` -1 all of the topic."""

    topic: Annotated[str, bounds.TOPIC_NAME_OR_NONE] = ""
    partition: Int32 = -1


class ReadStateChangesResponse(Struct, frozen=True):
    """One JSON line of the log per item, oldest first. `truncated`: older lines did not fit."""

    lines: tuple[bytes, ...]
    truncated: bool = False


class DescribeLogHeadsRequest(RequestFor["DescribeLogHeadsResponse"], frozen=True):
    pass


class LogHead(Struct, frozen=True):
    """Says where the state-change log of an incarnation ends: the number of its next line, the digest of its last one.

    It counts what was appended; the files may have less, where a write failed or was lost. `boot_id`: of the machine.
    `flushed_seq`, `flushed_digest`: of the last line that was flushed to disk; -1 before the first flush.
    """

    node: str
    incarnation: str
    next_seq: int
    digest: str
    boot_id: str = ""
    flushed_seq: int = -1
    flushed_digest: str = ""


class DescribeLogHeadsResponse(Struct, frozen=True):
    """The head of the log that the process writes, and before its first record that of its former run."""

    heads: tuple[LogHead, ...]


class DescribeFindingsRequest(RequestFor["DescribeFindingsResponse"], frozen=True):
    """Ask a process what it knows to be wrong; of the controllers only the active one responds."""


class Finding(Struct, frozen=True):
    """One thing that is wrong. `kind` is for programs, `detail` for people.

    Where they do not apply, `topic` is empty, `partition` and `broker` are -1.
    """

    kind: str
    detail: str
    topic: str = ""
    partition: int = -1
    broker: BrokerId = BrokerId(-1)


class DescribeFindingsResponse(Struct, frozen=True):
    findings: tuple[Finding, ...] = ()


class AcknowledgeDamageRequest(RequestFor["AcknowledgeDamageResponse"], frozen=True):
    """End the finding of a replica of the broker `broker_id`, which receives this: its records are lost for good."""

    broker_id: AnyBrokerId
    topic_name: TopicName
    partition_index: PartitionIndex
    validate_only: bool = False


class LostOffsets(Struct, frozen=True):
    """Offsets from `from_offset` up to, not including, `to_offset`; at least these, if not `is_end_known`."""

    from_offset: Offset
    to_offset: Offset
    is_end_known: bool = True


class AcknowledgeDamageResponse(Struct, frozen=True):
    """Holds what was lost."""

    lost: tuple[LostOffsets, ...] = ()


class WatchRequest(RequestFor["WatchResponse"], frozen=True):
    """Subscribe to cluster events from now on, or after `cursor` of an earlier stream. The response is a stream.

    `topics` None: all; events without a topic are always included.
    """

    cursor: Annotated[str, bounds.CURSOR] = ""
    topics: tuple[String, ...] | None = None


class ClusterEvent(Struct, frozen=True):
    """One change. Fields that do not apply to its `kind` are absent (-1, empty).

    `broker_joined`, `broker_left`, `broker_changed`: `broker`. `topic_created`, `topic_deletion_started`,
    `topic_deleted`, `partitions_added`, `configs_changed`: `topic`. `leader_changed`, `isr_changed`,
    `reassignment_started`, `reassignment_completed`, `reassignment_cancelled`: `topic`, `partition` and the partition's
    new state. `controller_changed`: `controller`.
    """

    kind: str
    at_ms: int
    controller_epoch: ControllerEpoch
    controller: ControllerId = ControllerId(-1)
    topic: str = ""
    partition: int = -1
    broker: BrokerId = BrokerId(-1)
    leader: BrokerId = BrokerId(-1)
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    isr: tuple[BrokerId, ...] = ()
    replicas: tuple[BrokerId, ...] = ()
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()


class WatchResponse(Struct, frozen=True):
    """The changes of one controller event. `cursor`: the position after them.

    `missed`: events before these may be missing, so the client should read the state again: the requested cursor is too
    old, or of another controller epoch.
    """

    cursor: str
    events: tuple[ClusterEvent, ...] = ()
    missed: bool = False
