"""What every process answers, and the stream of what happens in the cluster."""

from msgspec import Struct

from cluster.broker import NO_LEADER_EPOCH, BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint, LeaderEpoch


class DescribeClusterRequest(Struct, frozen=True):
    pass


class DescribedBroker(Struct, frozen=True):
    """`state`: `running`, or `shutting_down` between a controlled shutdown request and the broker's end."""

    id: BrokerId
    endpoint: Endpoint
    epoch: BrokerEpoch
    rack: str | None = None
    state: str = "running"


class DescribedController(Struct, frozen=True):
    """A controller candidate, or who is in it."""

    id: ControllerId
    address: str


class DescribeClusterResponse(Struct, frozen=True):
    """`controller_address` is empty and `controller_id` -1 while no controller is active.

    `controllers` are all that are registered; empty where the node that answers cannot look.
    """

    cluster_id: str
    controller_id: ControllerId
    controller_address: str
    controller_epoch: ControllerEpoch
    brokers: tuple[DescribedBroker, ...]
    node_id: int = -1
    node_role: str = ""
    controllers: tuple[DescribedController, ...] = ()


class ReadStateChangesRequest(Struct, frozen=True):
    """Records of this node's state-change log; an empty `topic` means all, `partition` -1 all of the topic."""

    topic: str = ""
    partition: int = -1


class ReadStateChangesResponse(Struct, frozen=True):
    """One JSON line of the log per item, oldest first. Large answers are cut: `truncated`."""

    lines: tuple[bytes, ...]
    truncated: bool = False


class DescribeLogHeadsRequest(Struct, frozen=True):
    pass


class LogHead(Struct, frozen=True):
    """Where the state-change log of an incarnation ends: the number of its next line, the digest of its last one.

    It counts what was appended; the files may have less, where a write failed or was lost. `boot_id`: of the machine.
    """

    node: str
    incarnation: str
    next_seq: int
    digest: str
    boot_id: str = ""


class DescribeLogHeadsResponse(Struct, frozen=True):
    """One head per log that the process writes."""

    heads: tuple[LogHead, ...]


class WatchRequest(Struct, frozen=True):
    """Be told what happens from now on, or after `cursor` of an earlier stream. The answer is a stream.

    `topics` None: all of them; events that concern no topic always come.
    """

    cursor: str = ""
    topics: tuple[str, ...] | None = None


class ClusterEvent(Struct, frozen=True):
    """One change. `kind` says which; fields that mean nothing for it are absent (-1, empty).

    `broker_joined`, `broker_left`, `broker_changed`: `broker`. `topic_created`, `topic_deletion_started`,
    `topic_deleted`, `partitions_added`, `configs_changed`: `topic`. `leader_changed`, `isr_changed`,
    `reassignment_started`, `reassignment_completed`, `reassignment_cancelled`: `topic`, `partition` and the
    partition's state from now on. `controller_changed`: `controller`.
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
    """Changes of one event of the controller. `cursor` names the place behind them.

    With `missed`, events before these may have been lost to this reader, who should read the state again:
    the cursor it asked for is too old, or of another controller's time as the active controller.
    """

    cursor: str
    events: tuple[ClusterEvent, ...] = ()
    missed: bool = False
