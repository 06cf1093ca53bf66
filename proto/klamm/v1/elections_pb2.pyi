from klamm.v1 import plans_pb2 as _plans_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ElectLeadersTopic(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms", "validate_only", "awaits_leaders")
    ELECTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    AWAITS_LEADERS_FIELD_NUMBER: _ClassVar[int]
    election_type: int
    topic_partitions: ElectLeadersTopics
    timeout_ms: int
    validate_only: bool
    awaits_leaders: bool
    def __init__(self, election_type: _Optional[int] = ..., topic_partitions: _Optional[_Union[ElectLeadersTopics, _Mapping]] = ..., timeout_ms: _Optional[int] = ..., validate_only: _Optional[bool] = ..., awaits_leaders: _Optional[bool] = ...) -> None: ...

class PartitionElectionResult(_message.Message):
    __slots__ = ("partition_id", "error_code", "error_message")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    partition_id: int
    error_code: int
    error_message: str
    def __init__(self, partition_id: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class ReplicaElectionResult(_message.Message):
    __slots__ = ("topic", "partition_result")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_RESULT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition_result: _containers.RepeatedCompositeFieldContainer[PartitionElectionResult]
    def __init__(self, topic: _Optional[str] = ..., partition_result: _Optional[_Iterable[_Union[PartitionElectionResult, _Mapping]]] = ...) -> None: ...

class ElectLeadersResponse(_message.Message):
    __slots__ = ("results", "plan")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReplicaElectionResult]
    plan: _plans_pb2.Plan
    def __init__(self, results: _Optional[_Iterable[_Union[ReplicaElectionResult, _Mapping]]] = ..., plan: _Optional[_Union[_plans_pb2.Plan, _Mapping]] = ...) -> None: ...

class PlanControlledShutdownRequest(_message.Message):
    __slots__ = ("broker_id",)
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    def __init__(self, broker_id: _Optional[int] = ...) -> None: ...

class ThreatenedPartition(_message.Message):
    __slots__ = ("topic", "partition", "isr_after", "min_insync_replicas")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ISR_AFTER_FIELD_NUMBER: _ClassVar[int]
    MIN_INSYNC_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    isr_after: int
    min_insync_replicas: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., isr_after: _Optional[int] = ..., min_insync_replicas: _Optional[int] = ...) -> None: ...

class PlanControlledShutdownResponse(_message.Message):
    __slots__ = ("leaderless", "below_min_isr", "plan")
    LEADERLESS_FIELD_NUMBER: _ClassVar[int]
    BELOW_MIN_ISR_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    leaderless: _containers.RepeatedCompositeFieldContainer[ThreatenedPartition]
    below_min_isr: _containers.RepeatedCompositeFieldContainer[ThreatenedPartition]
    plan: _plans_pb2.Plan
    def __init__(self, leaderless: _Optional[_Iterable[_Union[ThreatenedPartition, _Mapping]]] = ..., below_min_isr: _Optional[_Iterable[_Union[ThreatenedPartition, _Mapping]]] = ..., plan: _Optional[_Union[_plans_pb2.Plan, _Mapping]] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ("error_code",)
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    def __init__(self, error_code: _Optional[int] = ...) -> None: ...

class ElectLeadersTopics(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[ElectLeadersTopic]
    def __init__(self, topics: _Optional[_Iterable[_Union[ElectLeadersTopic, _Mapping]]] = ...) -> None: ...
