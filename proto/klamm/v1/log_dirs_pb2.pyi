from klamm.v1 import partition_pb2 as _partition_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeLogDirsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _partition_pb2.TopicNames
    def __init__(self, topics: _Optional[_Union[_partition_pb2.TopicNames, _Mapping]] = ...) -> None: ...

class DescribeLogDirsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DescribedLogDir]
    def __init__(self, results: _Optional[_Iterable[_Union[DescribedLogDir, _Mapping]]] = ...) -> None: ...

class DescribedLogDir(_message.Message):
    __slots__ = ("error_code", "log_dir", "error_message", "replicas", "total_bytes", "usable_bytes", "findings")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    USABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    log_dir: str
    error_message: str
    replicas: _containers.RepeatedCompositeFieldContainer[DescribedLogDirReplica]
    total_bytes: int
    usable_bytes: int
    findings: _containers.RepeatedCompositeFieldContainer[LogDirFinding]
    def __init__(self, error_code: _Optional[int] = ..., log_dir: _Optional[str] = ..., error_message: _Optional[str] = ..., replicas: _Optional[_Iterable[_Union[DescribedLogDirReplica, _Mapping]]] = ..., total_bytes: _Optional[int] = ..., usable_bytes: _Optional[int] = ..., findings: _Optional[_Iterable[_Union[LogDirFinding, _Mapping]]] = ...) -> None: ...

class DescribedLogDirReplica(_message.Message):
    __slots__ = ("topic", "partition", "size", "offset_lag")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_LAG_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    size: int
    offset_lag: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., size: _Optional[int] = ..., offset_lag: _Optional[int] = ...) -> None: ...

class LogDirFinding(_message.Message):
    __slots__ = ("kind", "topic", "partition", "detail")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    kind: str
    topic: str
    partition: int
    detail: str
    def __init__(self, kind: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...
