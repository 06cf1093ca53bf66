from klamm.v1 import partition_pb2 as _partition_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RequestCause(_message.Message):
    __slots__ = ("controller_id", "controller_epoch", "event", "id")
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    controller_id: int
    controller_epoch: int
    event: str
    id: int
    def __init__(self, controller_id: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., event: _Optional[str] = ..., id: _Optional[int] = ...) -> None: ...

class StateLogHead(_message.Message):
    __slots__ = ("node", "incarnation", "seq", "digest", "boot_id")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: str
    seq: int
    digest: str
    boot_id: str
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[str] = ..., seq: _Optional[int] = ..., digest: _Optional[str] = ..., boot_id: _Optional[str] = ...) -> None: ...

class LeaderAndIsrRequest(_message.Message):
    __slots__ = ("controller_id", "controller_epoch", "broker_epoch", "topic_states", "live_leaders", "causes", "state_log_head")
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_STATES_FIELD_NUMBER: _ClassVar[int]
    LIVE_LEADERS_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    STATE_LOG_HEAD_FIELD_NUMBER: _ClassVar[int]
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: _containers.RepeatedCompositeFieldContainer[LeaderAndIsrTopicState]
    live_leaders: _containers.RepeatedCompositeFieldContainer[LiveLeader]
    causes: _containers.RepeatedCompositeFieldContainer[RequestCause]
    state_log_head: StateLogHead
    def __init__(self, controller_id: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., topic_states: _Optional[_Iterable[_Union[LeaderAndIsrTopicState, _Mapping]]] = ..., live_leaders: _Optional[_Iterable[_Union[LiveLeader, _Mapping]]] = ..., causes: _Optional[_Iterable[_Union[RequestCause, _Mapping]]] = ..., state_log_head: _Optional[_Union[StateLogHead, _Mapping]] = ...) -> None: ...

class LeaderAndIsrTopicState(_message.Message):
    __slots__ = ("topic_name", "topic_id", "partition_states")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_STATES_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    topic_id: str
    partition_states: _containers.RepeatedCompositeFieldContainer[LeaderAndIsrPartitionState]
    def __init__(self, topic_name: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition_states: _Optional[_Iterable[_Union[LeaderAndIsrPartitionState, _Mapping]]] = ...) -> None: ...

class LeaderAndIsrPartitionState(_message.Message):
    __slots__ = ("partition_index", "controller_epoch", "leader", "leader_epoch", "isr", "partition_epoch", "replicas", "adding_replicas", "removing_replicas", "is_new", "leader_recovery_state")
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    LEADER_RECOVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    partition_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    is_new: bool
    leader_recovery_state: int
    def __init__(self, partition_index: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., partition_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ..., is_new: _Optional[bool] = ..., leader_recovery_state: _Optional[int] = ...) -> None: ...

class LiveLeader(_message.Message):
    __slots__ = ("broker_id", "host", "port")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    host: str
    port: int
    def __init__(self, broker_id: _Optional[int] = ..., host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class LeaderAndIsrResponse(_message.Message):
    __slots__ = ("error_code", "partition_errors", "controller_epoch", "broker_epoch", "state_log_head")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_ERRORS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_LOG_HEAD_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    partition_errors: _containers.RepeatedCompositeFieldContainer[LeaderAndIsrPartitionError]
    controller_epoch: int
    broker_epoch: int
    state_log_head: StateLogHead
    def __init__(self, error_code: _Optional[int] = ..., partition_errors: _Optional[_Iterable[_Union[LeaderAndIsrPartitionError, _Mapping]]] = ..., controller_epoch: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., state_log_head: _Optional[_Union[StateLogHead, _Mapping]] = ...) -> None: ...

class LeaderAndIsrPartitionError(_message.Message):
    __slots__ = ("topic_name", "topic_id", "partition_index", "error_code", "leader_epoch")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    topic_id: str
    partition_index: int
    error_code: int
    leader_epoch: int
    def __init__(self, topic_name: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition_index: _Optional[int] = ..., error_code: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class StopReplicaRequest(_message.Message):
    __slots__ = ("controller_id", "controller_epoch", "broker_epoch", "partition_states", "causes", "state_log_head")
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_STATES_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    STATE_LOG_HEAD_FIELD_NUMBER: _ClassVar[int]
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: _containers.RepeatedCompositeFieldContainer[StopReplicaPartitionState]
    causes: _containers.RepeatedCompositeFieldContainer[RequestCause]
    state_log_head: StateLogHead
    def __init__(self, controller_id: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partition_states: _Optional[_Iterable[_Union[StopReplicaPartitionState, _Mapping]]] = ..., causes: _Optional[_Iterable[_Union[RequestCause, _Mapping]]] = ..., state_log_head: _Optional[_Union[StateLogHead, _Mapping]] = ...) -> None: ...

class StopReplicaPartitionState(_message.Message):
    __slots__ = ("topic_name", "partition_index", "leader_epoch", "delete_partition", "topic_id")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DELETE_PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    partition_index: int
    leader_epoch: int
    delete_partition: bool
    topic_id: str
    def __init__(self, topic_name: _Optional[str] = ..., partition_index: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., delete_partition: _Optional[bool] = ..., topic_id: _Optional[str] = ...) -> None: ...

class StopReplicaResponse(_message.Message):
    __slots__ = ("error_code", "partition_errors", "controller_epoch", "broker_epoch", "state_log_head")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_ERRORS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_LOG_HEAD_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    partition_errors: _containers.RepeatedCompositeFieldContainer[StopReplicaPartitionError]
    controller_epoch: int
    broker_epoch: int
    state_log_head: StateLogHead
    def __init__(self, error_code: _Optional[int] = ..., partition_errors: _Optional[_Iterable[_Union[StopReplicaPartitionError, _Mapping]]] = ..., controller_epoch: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., state_log_head: _Optional[_Union[StateLogHead, _Mapping]] = ...) -> None: ...

class StopReplicaPartitionError(_message.Message):
    __slots__ = ("topic_name", "partition_index", "error_code")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    partition_index: int
    error_code: int
    def __init__(self, topic_name: _Optional[str] = ..., partition_index: _Optional[int] = ..., error_code: _Optional[int] = ...) -> None: ...

class UpdateMetadataRequest(_message.Message):
    __slots__ = ("controller_id", "controller_epoch", "broker_epoch", "topic_states", "live_brokers", "causes", "state_log_head")
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_STATES_FIELD_NUMBER: _ClassVar[int]
    LIVE_BROKERS_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    STATE_LOG_HEAD_FIELD_NUMBER: _ClassVar[int]
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: _containers.RepeatedCompositeFieldContainer[UpdateMetadataTopicState]
    live_brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    causes: _containers.RepeatedCompositeFieldContainer[RequestCause]
    state_log_head: StateLogHead
    def __init__(self, controller_id: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., topic_states: _Optional[_Iterable[_Union[UpdateMetadataTopicState, _Mapping]]] = ..., live_brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., causes: _Optional[_Iterable[_Union[RequestCause, _Mapping]]] = ..., state_log_head: _Optional[_Union[StateLogHead, _Mapping]] = ...) -> None: ...

class UpdateMetadataTopicState(_message.Message):
    __slots__ = ("topic_name", "topic_id", "partition_states")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_STATES_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    topic_id: str
    partition_states: _containers.RepeatedCompositeFieldContainer[UpdateMetadataPartitionState]
    def __init__(self, topic_name: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition_states: _Optional[_Iterable[_Union[UpdateMetadataPartitionState, _Mapping]]] = ...) -> None: ...

class UpdateMetadataPartitionState(_message.Message):
    __slots__ = ("partition_index", "controller_epoch", "leader", "leader_epoch", "isr", "zk_version", "replicas", "offline_replicas")
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ZK_VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    zk_version: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    offline_replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition_index: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., zk_version: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., offline_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("id", "endpoints", "rack")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    id: int
    endpoints: _containers.RepeatedCompositeFieldContainer[_partition_pb2.Endpoint]
    rack: str
    def __init__(self, id: _Optional[int] = ..., endpoints: _Optional[_Iterable[_Union[_partition_pb2.Endpoint, _Mapping]]] = ..., rack: _Optional[str] = ...) -> None: ...

class UpdateMetadataResponse(_message.Message):
    __slots__ = ("error_code", "controller_epoch", "broker_epoch", "state_log_head")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_LOG_HEAD_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    controller_epoch: int
    broker_epoch: int
    state_log_head: StateLogHead
    def __init__(self, error_code: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., state_log_head: _Optional[_Union[StateLogHead, _Mapping]] = ...) -> None: ...
