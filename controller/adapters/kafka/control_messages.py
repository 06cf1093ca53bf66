"""Control requests and their responses as messages of Kafka, in the versions of an inter-broker protocol version.

The states that several requests share are encoded once. Kafka's numbers say what a broker has to know: an error code
without a name here is UNKNOWN_SERVER_ERROR, and must not stop the sender. Source: Kafka
AbstractControllerBrokerRequestBatch, ControllerChannelManager.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from cluster.kafka_wire.codec import encode
from cluster.kafka_wire.conversion import conversion, convert
from cluster.kafka_wire.message import EncodedPart, Message
from cluster.kafka_wire.messages import control as wire_control
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import ApiVersion
from cluster.kafka_wire.messages.control import LeaderAndIsrResponse as LeaderAndIsrAnswer
from cluster.kafka_wire.messages.control import StopReplicaResponse as StopReplicaAnswer
from cluster.kafka_wire.messages.control import UpdateMetadataResponse as UpdateMetadataAnswer
from cluster.model.broker import ZERO_TOPIC_ID, Broker
from cluster.model.errors import known_code
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests import control
from cluster.rpc.encoded_parts import EncodedParts

SECURITY_PROTOCOLS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class ControlVersions(Struct, frozen=True):
    """The versions of the requests that brokers of one protocol version understand."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int

    @classmethod
    def of(cls, protocol: ProtocolVersion) -> "ControlVersions":
        """Choose the versions for a `protocol` of 2.4 or later. Source: Kafka AbstractControllerBrokerRequestBatch."""
        return cls(
            leader_and_isr=_latest(protocol, {((3, 4), 0): 7, ((3, 2), 0): 6, ((2, 8), 1): 5}, 4),
            update_metadata=_latest(protocol, {((3, 4), 0): 8, ((2, 8), 1): 7}, 6),
            stop_replica=_latest(protocol, {((3, 4), 0): 4, ((2, 6), 0): 3}, 2),
        )

    def not_understood(self, announced: Iterable[ApiVersion]) -> str | None:
        """Say which requests a broker with these versions does not understand; None if it understands all."""
        ranges = {version.api_key: version for version in announced}
        for key, wanted in (
            (ApiKey.LEADER_AND_ISR, self.leader_and_isr),
            (ApiKey.UPDATE_METADATA, self.update_metadata),
            (ApiKey.STOP_REPLICA, self.stop_replica),
        ):
            found = ranges.get(key)
            if found is None:
                return f"{key.name} at all"
            if not found.min_version <= wanted <= found.max_version:
                return f"version {wanted} of {key.name}, only {found.min_version} to {found.max_version}"
        return None


def _latest(protocol: ProtocolVersion, since: Mapping[tuple[tuple[int, ...], int], int], oldest: int) -> int:
    return next((v for (release, change), v in since.items() if protocol >= ProtocolVersion(release, change)), oldest)


class ControlMessages:
    """Makes messages in the versions of one protocol version.

    `controller`: the controller as a broker of the metadata that brokers are sent, by which they and their clients find
    it.
    """

    def __init__(self, protocol: ProtocolVersion, controller: Broker) -> None:
        self.versions = versions = ControlVersions.of(protocol)
        self._controller = controller
        partition = conversion(control.LeaderAndIsrPartitionState, wire_control.LeaderAndIsrPartitionState)
        topic = conversion(control.UpdateMetadataTopicState, wire_control.UpdateMetadataTopicState)
        self._partitions = EncodedParts[control.LeaderAndIsrPartitionState](
            lambda state: encode(partition(state), versions.leader_and_isr)
        )
        self._topics = EncodedParts[control.UpdateMetadataTopicState](
            lambda state: encode(topic(state), versions.update_metadata)
        )
        self._brokers = EncodedParts[Broker](lambda broker: encode(_live_broker(broker), versions.update_metadata))

    def message(self, request: control.ControlRequest) -> tuple[Message, int]:
        """The request as a message, and the version to encode it in."""
        match request:
            case control.LeaderAndIsrRequest():
                return self._leader_and_isr(request), self.versions.leader_and_isr
            case control.UpdateMetadataRequest():
                return self._update_metadata(request), self.versions.update_metadata
            case control.StopReplicaRequest():
                return self._stop_replica(request), self.versions.stop_replica
            case _:
                assert_never(request)

    def _leader_and_isr(self, request: control.LeaderAndIsrRequest) -> wire_control.LeaderAndIsrRequest:
        topics = (
            _leader_and_isr_topic(topic, partition_states=_encoded(self._partitions, topic.partition_states))
            for topic in request.topic_states
        )
        return convert(request, wire_control.LeaderAndIsrRequest, topic_states=tuple(topics))

    def _update_metadata(self, request: control.UpdateMetadataRequest) -> wire_control.UpdateMetadataRequest:
        return convert(
            request,
            wire_control.UpdateMetadataRequest,
            topic_states=_encoded(self._topics, request.topic_states),
            live_brokers=_encoded(self._brokers, (*request.live_brokers, self._controller)),
        )

    def _stop_replica(self, request: control.StopReplicaRequest) -> wire_control.StopReplicaRequest:
        states = sorted(request.partition_states, key=lambda state: state.topic_name)
        by_topic = replace(request, partition_states=tuple(states))
        if self.versions.stop_replica > _ONE_FLAG_PER_REQUEST:
            return convert(by_topic, wire_control.StopReplicaRequest)
        topics = (
            wire_control.StopReplicaTopicV1(name=topic, partition_indexes=tuple(s.partition_index for s in of_topic))
            for topic, of_topic in groupby(states, lambda state: state.topic_name)
        )
        return wire_control.StopReplicaRequest(
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            delete_partitions=any(state.delete_partition for state in states),
            topics=tuple(topics),
        )


_leader_and_isr_topic: Final = conversion(
    control.LeaderAndIsrTopicState, wire_control.LeaderAndIsrTopicState, "partition_states"
)
_ONE_FLAG_PER_REQUEST: Final = 2
"""The last version of StopReplica that deletes all of its partitions or none; batches are made for that (RQ-13)."""


def answer_type(request: control.ControlRequest) -> type[Message]:
    """The message that answers the request."""
    match request:
        case control.LeaderAndIsrRequest():
            return LeaderAndIsrAnswer
        case control.UpdateMetadataRequest():
            return UpdateMetadataAnswer
        case control.StopReplicaRequest():
            return StopReplicaAnswer
        case _:
            assert_never(request)


def response_of(request: control.ControlRequest, answer: Any) -> control.ControlResponse:
    """The response in the types of the controller."""
    match request, answer:
        case control.LeaderAndIsrRequest(), LeaderAndIsrAnswer():
            errors = _leader_errors(answer, request.topic_states)
            return control.LeaderAndIsrResponse(known_code(answer.error_code), tuple(errors))
        case control.StopReplicaRequest(), StopReplicaAnswer():
            return convert(answer, control.StopReplicaResponse)
        case control.UpdateMetadataRequest(), UpdateMetadataAnswer():
            return convert(answer, control.UpdateMetadataResponse)
    raise AssertionError(f"{type(answer).__name__} does not answer {type(request).__name__}")


def _leader_errors(
    answer: LeaderAndIsrAnswer, topics: Sequence[control.LeaderAndIsrTopicState]
) -> Iterable[control.LeaderAndIsrPartitionError]:
    """Topics have names in the older versions, ids in the newer ones. There the errors of all topics without an id come
    together, and count only where one of these topics alone can be meant.
    """
    without: dict[int, list[str]] = defaultdict(list)
    for topic in topics:
        for state in topic.partition_states if topic.topic_id is None else ():
            without[state.partition_index].append(topic.topic_name)
    names = {topic.topic_id or ZERO_TOPIC_ID: topic.topic_name for topic in topics}
    for error in answer.partition_errors:
        code = known_code(error.error_code)
        yield control.LeaderAndIsrPartitionError(error.topic_name, None, error.partition_index, code)
    for refused in answer.topics:
        for error in refused.partition_errors:
            code, partition = known_code(error.error_code), error.partition_index
            if refused.topic_id != ZERO_TOPIC_ID:
                name = names.get(refused.topic_id, "")
                yield control.LeaderAndIsrPartitionError(name, refused.topic_id, partition, code)
                continue
            if len(without[partition]) == 1:
                yield control.LeaderAndIsrPartitionError(without[partition][0], None, partition, code)


def _live_broker(broker: Broker) -> wire_control.UpdateMetadataBroker:
    endpoints = (
        convert(
            endpoint,
            wire_control.UpdateMetadataEndpoint,
            security_protocol=SECURITY_PROTOCOLS.get(endpoint.security_protocol, 0),
        )
        for endpoint in broker.endpoints
    )
    return convert(broker, wire_control.UpdateMetadataBroker, endpoints=tuple(endpoints))


def _encoded(parts: EncodedParts[Any], states: Iterable[Any]) -> Any:
    """The states, each already encoded."""
    return tuple([EncodedPart(parts.bytes_of(state)) for state in states])
