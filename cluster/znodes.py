"""Every znode klamm touches: its path, and its content to and from values, in Kafka's JSON.

Decoders ignore fields they do not know and raise MalformedZnodeError with path and bytes on anything they
cannot read; callers log it and skip the node. Encoders and decoders of one node stand side by side.
Source: Kafka ZkData.scala; KIP-455 (reassignment fields), KIP-516 (topic ids), KIP-584 (features).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from cluster.broker import (
    Broker,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    FeatureRange,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.errors import MalformedZnodeError
from cluster.partition import RECOVERED, RECOVERING, Leadership, ReplicaAssignment, TopicAssignment, TopicPartition

_T = TypeVar("_T")
# Numbers travel as 32 bits between nodes: one that does not fit must stop here, at the node that says it.
_INT32_MAX: Final = 2**31 - 1
_Int32 = Annotated[int, Meta(ge=-(2**31), le=_INT32_MAX)]
_ReplicaId = Annotated[BrokerId, Meta(ge=0, le=_INT32_MAX)]
_LeaderId = Annotated[BrokerId, Meta(ge=-1, le=_INT32_MAX)]
_Port = Annotated[int, Meta(ge=-1, le=65_535)]

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CONTROLLERS_IDS: Final = "/controllers/ids"
BROKERS_IDS: Final = "/brokers/ids"
BROKERS_TOPICS: Final = "/brokers/topics"
BROKERS_SEQID: Final = "/brokers/seqid"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_TOPICS: Final = "/config/topics"
CONFIG_BROKERS: Final = "/config/brokers"
CLUSTER_ID: Final = "/cluster/id"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"

PERSISTENT_PATHS: Final = (
    "/consumers",
    BROKERS_IDS,
    BROKERS_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKERS_SEQID,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    CONFIG_TOPICS,
    "/config/clients",
    "/config/users",
    CONFIG_BROKERS,
    "/config/ips",
)
"""Created empty by every process at its start, parents included, where absent."""


def broker_path(broker: BrokerId) -> str:
    return f"{BROKERS_IDS}/{broker}"


def controller_registration_path(controller: ControllerId) -> str:
    return f"{CONTROLLERS_IDS}/{controller}"


def topic_path(topic: str) -> str:
    return f"{BROKERS_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{BROKERS_TOPICS}/{topic}/partitions"


def partition_path(tp: TopicPartition) -> str:
    return f"{BROKERS_TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state_path(tp: TopicPartition) -> str:
    return f"{BROKERS_TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def partition_of_state_path(path: str) -> TopicPartition | None:
    """The inverse of `state_path`; None for any other path."""
    match path.split("/"):
        case ["", "brokers", "topics", topic, "partitions", partition, "state"] if partition.isdecimal():
            return TopicPartition(topic, int(partition))
        case _:
            return None


def topic_config_path(topic: str) -> str:
    return f"{CONFIG_TOPICS}/{topic}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


# /controller


class _Controller(Struct):
    brokerid: Annotated[ControllerId, Meta(ge=0, le=_INT32_MAX)]


def encode_controller(controller: ControllerId, now_ms: int) -> bytes:
    return msgspec.json.encode(
        {"version": 2, "brokerid": controller, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> ControllerId | None:
    """Who is in office; None for a body that cannot be read (no controller known)."""
    try:
        return _decode(_controller_decoder, CONTROLLER, data).brokerid
    except MalformedZnodeError:
        return None


_controller_decoder = msgspec.json.Decoder(_Controller)


# /controller_epoch


def encode_controller_epoch(epoch: ControllerEpoch) -> bytes:
    assert epoch >= 0, f"controller epoch {epoch} is negative"
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> ControllerEpoch:
    if not data.isdigit():
        raise MalformedZnodeError(CONTROLLER_EPOCH, data, "not a decimal number")
    if len(data) > 10 or int(data) >= _INT32_MAX:
        raise MalformedZnodeError(CONTROLLER_EPOCH, data, "no epoch of 32 bits can follow it")
    return ControllerEpoch(int(data))


# /brokers/ids/<id> and /controllers/ids/<id>


class _Registration(Struct):
    version: int
    host: str | None = None
    port: _Port = -1
    endpoints: list[str] | None = None
    rack: str | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    features: dict[str, FeatureRange] | None = None


_registration_decoder = msgspec.json.Decoder(_Registration)


def encode_broker(broker: Broker, now_ms: int) -> bytes:
    return msgspec.json.encode(_registration_body(broker, now_ms))


def _registration_body(broker: Broker, now_ms: int) -> dict[str, Any]:
    plaintext = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    body: dict[str, Any] = {
        "version": 5,
        "host": plaintext.host if plaintext else None,
        "port": plaintext.port if plaintext else -1,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [f"{e.listener}://{e.address}" for e in broker.endpoints],
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
        "features": broker.features,
    }
    if broker.rack is not None:
        body["rack"] = broker.rack
    return body


def decode_broker(broker: BrokerId, data: bytes) -> Broker:
    """A registration of version 1 to 5; fields that its version does not have yet are not read (R1.6)."""
    path = broker_path(broker)
    body = _decode(_registration_decoder, path, data)
    if body.version < 1:
        raise MalformedZnodeError(path, data, f"version {body.version} is below 1")
    protocols = (body.listener_security_protocol_map or {}) if body.version >= 4 else {}
    if body.version == 1:
        if body.host is None:
            raise MalformedZnodeError(path, data, "host is missing")
        endpoints: tuple[Endpoint, ...] = (Endpoint(body.host, body.port),)
    else:
        endpoints = tuple(_endpoint(path, data, text, protocols) for text in body.endpoints or ())
    listeners = [e.listener for e in endpoints]
    if len(set(listeners)) != len(listeners):
        raise MalformedZnodeError(path, data, "two endpoints have the same listener name")
    return Broker(
        id=broker,
        endpoints=endpoints,
        rack=body.rack if body.version >= 3 else None,
        features=(body.features or {}) if body.version >= 5 else {},
    )


def _endpoint(path: str, data: bytes, text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, rest = text.partition("://")
    host, colon, port = rest.rpartition(":")
    digits = port.removeprefix("-")
    if not (separator and colon and digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(port) <= 65_535):
        raise MalformedZnodeError(path, data, f"endpoint {text!r} is not LISTENER://host:port")
    return Endpoint(host.strip("[]"), int(port), listener, protocols.get(listener, listener))


def encode_controller_registration(controller: ControllerId, endpoint: Endpoint, now_ms: int) -> bytes:
    """Like a broker registration, reduced to what finds the process."""
    return msgspec.json.encode(
        {
            "version": 1,
            "host": endpoint.host,
            "port": endpoint.port,
            "endpoints": [f"{endpoint.listener}://{endpoint.address}"],
            "timestamp": str(now_ms),
        }
    )


def decode_controller_registration(controller: ControllerId, data: bytes) -> Endpoint:
    path = controller_registration_path(controller)
    body = _decode(_registration_decoder, path, data)
    if body.host is None:
        raise MalformedZnodeError(path, data, "host is missing")
    return Endpoint(body.host, body.port)


# /brokers/topics/<topic>


class _Topic(Struct):
    partitions: dict[str, tuple[_ReplicaId, ...]] = {}
    adding_replicas: dict[str, tuple[_ReplicaId, ...]] = {}
    removing_replicas: dict[str, tuple[_ReplicaId, ...]] = {}
    topic_id: TopicId | None = None


_topic_decoder = msgspec.json.Decoder(_Topic)


def encode_topic(topic: TopicAssignment) -> bytes:
    """Version 3; both maps always there, listing only partitions with a non-empty list (ZK-20)."""
    body: dict[str, Any] = {
        "version": 3,
        "partitions": {str(p): a.replicas for p, a in topic.partitions.items()},
        "adding_replicas": {str(p): a.adding for p, a in topic.partitions.items() if a.adding},
        "removing_replicas": {str(p): a.removing for p, a in topic.partitions.items() if a.removing},
    }
    if topic.topic_id is not None:
        body["topic_id"] = topic.topic_id
    return msgspec.json.encode(body)


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    path = topic_path(topic)
    body = _decode(_topic_decoder, path, data)
    partitions: dict[int, ReplicaAssignment] = {}
    for name, replicas in body.partitions.items():
        if not (name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= _INT32_MAX):
            raise MalformedZnodeError(path, data, f"partition {name!r} is not a number of 31 bits")
        if len(set(replicas)) != len(replicas):
            raise MalformedZnodeError(path, data, f"partition {name} names a broker twice")
        partitions[int(name)] = ReplicaAssignment(
            replicas, body.adding_replicas.get(name, ()), body.removing_replicas.get(name, ())
        )
    return TopicAssignment(partitions, body.topic_id)


# /brokers/topics/<topic>/partitions/<p>/state


class _State(Struct):
    leader: _LeaderId
    leader_epoch: Annotated[LeaderEpoch, Meta(ge=0, le=_INT32_MAX - 1)]
    isr: tuple[_ReplicaId, ...]
    controller_epoch: Annotated[ControllerEpoch, Meta(ge=-1, le=_INT32_MAX)]
    leader_recovery_state: Annotated[int, Meta(ge=RECOVERED, le=RECOVERING)] = RECOVERED


_state_decoder = msgspec.json.Decoder(_State)
_state_encoder = msgspec.json.Encoder()


class _StateBody(Struct):
    version: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    controller_epoch: ControllerEpoch
    isr: tuple[BrokerId, ...]


class _RecoveringStateBody(_StateBody):
    leader_recovery_state: int


def encode_state(leadership: Leadership) -> bytes:
    """The partition epoch is not part of the body (ZK-27); the recovery state only while RECOVERING (ZK-25)."""
    assert leadership.isr, "an ISR is never empty"
    values = (
        1,
        leadership.leader,
        leadership.leader_epoch,
        leadership.controller_epoch,
        leadership.isr,
    )
    if leadership.leader_recovery_state == RECOVERED:
        return _state_encoder.encode(_StateBody(*values))
    return _state_encoder.encode(_RecoveringStateBody(*values, leadership.leader_recovery_state))


def decode_state(tp: TopicPartition, data: bytes, partition_epoch: PartitionEpoch) -> Leadership | None:
    """None for a body that is not JSON (ZK-28); MalformedZnodeError where a required field is missing."""
    try:
        body = _state_decoder.decode(data)
    except msgspec.ValidationError as error:
        raise MalformedZnodeError(state_path(tp), data, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Leadership(
        body.leader,
        body.leader_epoch,
        body.isr,
        body.controller_epoch,
        partition_epoch,
        body.leader_recovery_state,
    )


# /config/<type>/<name>


class _Config(Struct):
    config: dict[str, str] = {}


_config_decoder = msgspec.json.Decoder(_Config)


def encode_config(config: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Overrides of one entity; an empty node has none."""
    return _decode(_config_decoder, path, data).config if data else {}


# /config/changes/config_change_<n>


DEFAULT_ENTITY: Final = "<default>"
"""The literal name that stands for all brokers under `/config/brokers`."""
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"


class ConfigEntity(NamedTuple):
    """Whose settings: `type` is `topics`, `brokers` or another folder of `/config`; `name` is what follows it."""

    type: str
    name: str

    @property
    def path(self) -> str:
        return f"/config/{self.type}/{self.name}"


class _ConfigChange(Struct):
    version: int
    entity_path: str = ""
    entity_type: str = ""
    entity_name: str = ""


_config_change_decoder = msgspec.json.Decoder(_ConfigChange)


def encode_config_change(entity: ConfigEntity) -> bytes:
    return msgspec.json.encode({"version": 2, "entity_path": f"{entity.type}/{entity.name}"})


def decode_config_change(path: str, data: bytes) -> ConfigEntity:
    """Version 2 names an entity by its path, version 1 a topic or a client by type and name (ZK-3)."""
    body = _decode(_config_change_decoder, path, data)
    if body.version == 1 and body.entity_type in {"topics", "clients"} and body.entity_name:
        return ConfigEntity(body.entity_type, body.entity_name)
    type_, slash, name = body.entity_path.partition("/")
    if body.version != 2 or not (type_ and slash and name):
        raise MalformedZnodeError(path, data, "names no entity")
    return ConfigEntity(type_, name)


# /isr_change_notification/isr_change_<n>, /admin/preferred_replica_election


class _PartitionRef(Struct):
    topic: str
    partition: _Int32


class _Partitions(Struct):
    partitions: list[_PartitionRef]


_partitions_decoder = msgspec.json.Decoder(_Partitions)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    return msgspec.json.encode({"version": 1, "partitions": [{"topic": t, "partition": p} for t, p in partitions]})


def decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    body = _decode(_partitions_decoder, path, data)
    return [TopicPartition(item.topic, item.partition) for item in body.partitions]


# /admin/reassign_partitions


class _ReassignmentEntry(Struct, forbid_unknown_fields=True):
    topic: str
    partition: _Int32
    replicas: tuple[_ReplicaId, ...]


class _Reassignments(Struct, forbid_unknown_fields=True):
    partitions: list[_ReassignmentEntry]
    version: int = 1


_reassignments_decoder = msgspec.json.Decoder(_Reassignments)


def encode_reassignments(targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    entries = [{"topic": tp.topic, "partition": tp.partition, "replicas": t} for tp, t in targets.items()]
    return msgspec.json.encode({"version": 1, "partitions": entries})


def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Target replicas by partition; a later entry replaces an earlier one (ZK-33).

    Strict: an unknown field or a wrong type spoils the whole document (ZK-34).
    """
    body = _decode(_reassignments_decoder, REASSIGN_PARTITIONS, data)
    return {TopicPartition(entry.topic, entry.partition): entry.replicas for entry in body.partitions}


# /log_dir_event_notification/log_dir_event_<n>


class _LogDirEvent(Struct):
    broker: _ReplicaId


_log_dir_event_decoder = msgspec.json.Decoder(_LogDirEvent)


def encode_log_dir_event(broker: BrokerId) -> bytes:
    """Event 1 says that a log directory of the broker failed; there is no other (KIP-112)."""
    return msgspec.json.encode({"version": 1, "broker": broker, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> BrokerId:
    """Whose log directory failed."""
    return _decode(_log_dir_event_decoder, path, data).broker


# /latest_producer_id_block


class ProducerIdBlock(NamedTuple):
    """Ids from `start` to `end`, both included, that were given to this broker."""

    broker: BrokerId
    start: int
    end: int


class _ProducerIdBlock(Struct):
    broker: BrokerId
    block_start: str
    block_end: str


_producer_id_block_decoder = msgspec.json.Decoder(_ProducerIdBlock)


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    body = {"version": 1, "broker": block.broker, "block_start": str(block.start), "block_end": str(block.end)}
    return msgspec.json.encode(body)


def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """The last block given; None for the empty node of a new cluster."""
    if not data:
        return None
    body = _decode(_producer_id_block_decoder, PRODUCER_ID_BLOCK, data)
    try:
        return ProducerIdBlock(body.broker, int(body.block_start), int(body.block_end))
    except ValueError as error:
        raise MalformedZnodeError(PRODUCER_ID_BLOCK, data, str(error)) from None


# /cluster/id


class _ClusterId(Struct):
    id: str


_cluster_id_decoder = msgspec.json.Decoder(_ClusterId)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Its `version` is a string, as Kafka writes it."""
    return msgspec.json.encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return _decode(_cluster_id_decoder, CLUSTER_ID, data).id


# /feature


class FinalizedFeatures(Struct, frozen=True):
    """`levels`: feature -> max_version_level. `version`: of the node's body; version 1 also has lowest levels."""

    enabled: bool
    levels: dict[str, int] = {}
    version: int = 2


class _FeatureLevel(Struct):
    max_version_level: _Int32


class _Features(Struct):
    version: int
    status: int
    features: dict[str, _FeatureLevel] = {}


_features_decoder = msgspec.json.Decoder(_Features)


def encode_features(features: FinalizedFeatures) -> bytes:
    lowest = {"min_version_level": 1} if features.version == 1 else {}
    return msgspec.json.encode(
        {
            "version": features.version,
            "status": int(features.enabled),
            "features": {name: {**lowest, "max_version_level": level} for name, level in features.levels.items()},
        }
    )


def decode_features(data: bytes) -> FinalizedFeatures:
    body = _decode(_features_decoder, FEATURE, data)
    if body.version not in {1, 2} or body.status not in {0, 1}:
        raise MalformedZnodeError(FEATURE, data, f"version {body.version}, status {body.status}")
    levels = {name: f.max_version_level for name, f in body.features.items()}
    return FinalizedFeatures(body.status == 1, levels, body.version)


def _decode(decoder: msgspec.json.Decoder[_T], path: str, data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedZnodeError(path, data, str(error)) from None
