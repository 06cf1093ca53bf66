from klamm.v1 import partition_pb2 as _partition_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeReplicasRequest(_message.Message):
    __slots__ = ("recovers",)
    RECOVERS_FIELD_NUMBER: _ClassVar[int]
    recovers: bool
    def __init__(self, recovers: _Optional[bool] = ...) -> None: ...

class DescribeReplicasResponse(_message.Message):
    __slots__ = ("broker_id", "controller_epoch", "producer_id", "replicas", "leaderships")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LEADERSHIPS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    controller_epoch: int
    producer_id: int
    replicas: _containers.RepeatedCompositeFieldContainer[DescribedReplica]
    leaderships: _containers.RepeatedCompositeFieldContainer[KnownLeadership]
    def __init__(self, broker_id: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., producer_id: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[DescribedReplica, _Mapping]]] = ..., leaderships: _Optional[_Iterable[_Union[KnownLeadership, _Mapping]]] = ...) -> None: ...

class DescribedReplica(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "leader_epoch", "log_epoch", "log_end_offset", "high_watermark")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    log_epoch: int
    log_end_offset: int
    high_watermark: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., log_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ...) -> None: ...

class KnownLeadership(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch", "isr", "replicas", "adding_replicas", "removing_replicas")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    replicas: _containers.RepeatedScalarFieldContainer[int]
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., replicas: _Optional[_Iterable[int]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class PlanClusterRecoveryRequest(_message.Message):
    __slots__ = ("accept_loss",)
    ACCEPT_LOSS_FIELD_NUMBER: _ClassVar[int]
    accept_loss: bool
    def __init__(self, accept_loss: _Optional[bool] = ...) -> None: ...

class PlanClusterRecoveryResponse(_message.Message):
    __slots__ = ("recovery",)
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    recovery: ClusterRecovery
    def __init__(self, recovery: _Optional[_Union[ClusterRecovery, _Mapping]] = ...) -> None: ...

class RecoverClusterRequest(_message.Message):
    __slots__ = ("accept_loss",)
    ACCEPT_LOSS_FIELD_NUMBER: _ClassVar[int]
    accept_loss: bool
    def __init__(self, accept_loss: _Optional[bool] = ...) -> None: ...

class RecoverClusterResponse(_message.Message):
    __slots__ = ("recovery",)
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    recovery: ClusterRecovery
    def __init__(self, recovery: _Optional[_Union[ClusterRecovery, _Mapping]] = ...) -> None: ...

class ClusterRecovery(_message.Message):
    __slots__ = ("partitions", "only_on_brokers", "only_in_zookeeper", "silent_brokers", "refusals", "controller_epoch", "last_producer_id")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ONLY_ON_BROKERS_FIELD_NUMBER: _ClassVar[int]
    ONLY_IN_ZOOKEEPER_FIELD_NUMBER: _ClassVar[int]
    SILENT_BROKERS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[RecoveredPartition]
    only_on_brokers: _containers.RepeatedScalarFieldContainer[str]
    only_in_zookeeper: _containers.RepeatedScalarFieldContainer[str]
    silent_brokers: _containers.RepeatedScalarFieldContainer[int]
    refusals: _containers.RepeatedScalarFieldContainer[str]
    controller_epoch: int
    last_producer_id: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[RecoveredPartition, _Mapping]]] = ..., only_on_brokers: _Optional[_Iterable[str]] = ..., only_in_zookeeper: _Optional[_Iterable[str]] = ..., silent_brokers: _Optional[_Iterable[int]] = ..., refusals: _Optional[_Iterable[str]] = ..., controller_epoch: _Optional[int] = ..., last_producer_id: _Optional[int] = ...) -> None: ...

class RecoveredPartition(_message.Message):
    __slots__ = ("topic", "before", "after", "last_isr", "absent", "log_end_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LAST_ISR_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    before: _partition_pb2.DescribedPartition
    after: _partition_pb2.DescribedPartition
    last_isr: _containers.RepeatedScalarFieldContainer[int]
    absent: _containers.RepeatedScalarFieldContainer[int]
    log_end_offset: int
    def __init__(self, topic: _Optional[str] = ..., before: _Optional[_Union[_partition_pb2.DescribedPartition, _Mapping]] = ..., after: _Optional[_Union[_partition_pb2.DescribedPartition, _Mapping]] = ..., last_isr: _Optional[_Iterable[int]] = ..., absent: _Optional[_Iterable[int]] = ..., log_end_offset: _Optional[int] = ...) -> None: ...
