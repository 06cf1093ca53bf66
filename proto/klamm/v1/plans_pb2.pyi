from klamm.v1 import partition_pb2 as _partition_pb2
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
    before: _partition_pb2.DescribedPartition
    after: _partition_pb2.DescribedPartition
    def __init__(self, topic: _Optional[str] = ..., before: _Optional[_Union[_partition_pb2.DescribedPartition, _Mapping]] = ..., after: _Optional[_Union[_partition_pb2.DescribedPartition, _Mapping]] = ...) -> None: ...

class PlannedRequest(_message.Message):
    __slots__ = ("broker_id", "name", "partitions", "delete")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    name: str
    partitions: int
    delete: bool
    def __init__(self, broker_id: _Optional[int] = ..., name: _Optional[str] = ..., partitions: _Optional[int] = ..., delete: _Optional[bool] = ...) -> None: ...

class PlannedSetting(_message.Message):
    __slots__ = ("resource_type", "resource_name", "name", "before", "after")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    name: str
    before: str
    after: str
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., name: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("changes", "requests", "settings")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[PlannedChange]
    requests: _containers.RepeatedCompositeFieldContainer[PlannedRequest]
    settings: _containers.RepeatedCompositeFieldContainer[PlannedSetting]
    def __init__(self, changes: _Optional[_Iterable[_Union[PlannedChange, _Mapping]]] = ..., requests: _Optional[_Iterable[_Union[PlannedRequest, _Mapping]]] = ..., settings: _Optional[_Iterable[_Union[PlannedSetting, _Mapping]]] = ...) -> None: ...
