from cluster.rpc.v1 import topics_pb2 as _topics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PlannedChange(_message.Message):
    __slots__ = ("topic", "before", "after")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    before: _topics_pb2.DescribedPartition
    after: _topics_pb2.DescribedPartition
    def __init__(self, topic: _Optional[str] = ..., before: _Optional[_Union[_topics_pb2.DescribedPartition, _Mapping]] = ..., after: _Optional[_Union[_topics_pb2.DescribedPartition, _Mapping]] = ...) -> None: ...

class PlannedRequest(_message.Message):
    __slots__ = ("broker_id", "name", "partitions")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    name: str
    partitions: int
    def __init__(self, broker_id: _Optional[int] = ..., name: _Optional[str] = ..., partitions: _Optional[int] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("changes", "requests")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[PlannedChange]
    requests: _containers.RepeatedCompositeFieldContainer[PlannedRequest]
    def __init__(self, changes: _Optional[_Iterable[_Union[PlannedChange, _Mapping]]] = ..., requests: _Optional[_Iterable[_Union[PlannedRequest, _Mapping]]] = ...) -> None: ...
