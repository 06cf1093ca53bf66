from klamm.v1 import partition_pb2 as _partition_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchRequest(_message.Message):
    __slots__ = ("cursor", "topics")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    topics: _partition_pb2.TopicNames
    def __init__(self, cursor: _Optional[str] = ..., topics: _Optional[_Union[_partition_pb2.TopicNames, _Mapping]] = ...) -> None: ...

class ClusterEvent(_message.Message):
    __slots__ = ("kind", "at_ms", "controller_epoch", "controller", "topic", "partition", "broker", "leader", "leader_epoch", "isr", "replicas", "adding_replicas", "removing_replicas")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    at_ms: int
    controller_epoch: int
    controller: int
    topic: str
    partition: int
    broker: int
    leader: int
    leader_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    replicas: _containers.RepeatedScalarFieldContainer[int]
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[str] = ..., at_ms: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., controller: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., broker: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., replicas: _Optional[_Iterable[int]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("cursor", "events", "missed")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    events: _containers.RepeatedCompositeFieldContainer[ClusterEvent]
    missed: bool
    def __init__(self, cursor: _Optional[str] = ..., events: _Optional[_Iterable[_Union[ClusterEvent, _Mapping]]] = ..., missed: _Optional[bool] = ...) -> None: ...
