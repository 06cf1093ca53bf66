from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeLogDirsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: DescribableLogDirTopics
    def __init__(self, topics: _Optional[_Union[DescribableLogDirTopics, _Mapping]] = ...) -> None: ...

class DescribableLogDirTopics(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[DescribableLogDirTopic]
    def __init__(self, topics: _Optional[_Iterable[_Union[DescribableLogDirTopic, _Mapping]]] = ...) -> None: ...

class DescribableLogDirTopic(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeLogDirsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DescribedLogDir]
    def __init__(self, results: _Optional[_Iterable[_Union[DescribedLogDir, _Mapping]]] = ...) -> None: ...

class DescribedLogDir(_message.Message):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    USABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    log_dir: str
    topics: _containers.RepeatedCompositeFieldContainer[DescribedLogDirTopic]
    total_bytes: int
    usable_bytes: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., log_dir: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[DescribedLogDirTopic, _Mapping]]] = ..., total_bytes: _Optional[int] = ..., usable_bytes: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class DescribedLogDirTopic(_message.Message):
    __slots__ = ("name", "partitions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedLogDirPartition]
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[DescribedLogDirPartition, _Mapping]]] = ...) -> None: ...

class DescribedLogDirPartition(_message.Message):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    PARTITION_SIZE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_LAG_FIELD_NUMBER: _ClassVar[int]
    IS_FUTURE_KEY_FIELD_NUMBER: _ClassVar[int]
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool
    def __init__(self, partition_index: _Optional[int] = ..., partition_size: _Optional[int] = ..., offset_lag: _Optional[int] = ..., is_future_key: _Optional[bool] = ...) -> None: ...

class AlterReplicaLogDirsRequest(_message.Message):
    __slots__ = ("dirs", "validate_only")
    DIRS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    dirs: _containers.RepeatedCompositeFieldContainer[AlterReplicaLogDir]
    validate_only: bool
    def __init__(self, dirs: _Optional[_Iterable[_Union[AlterReplicaLogDir, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class AlterReplicaLogDir(_message.Message):
    __slots__ = ("path", "topics")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    path: str
    topics: _containers.RepeatedCompositeFieldContainer[AlterReplicaLogDirTopic]
    def __init__(self, path: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[AlterReplicaLogDirTopic, _Mapping]]] = ...) -> None: ...

class AlterReplicaLogDirTopic(_message.Message):
    __slots__ = ("name", "partitions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class AlterReplicaLogDirsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AlteredReplicaLogDirTopic]
    def __init__(self, results: _Optional[_Iterable[_Union[AlteredReplicaLogDirTopic, _Mapping]]] = ...) -> None: ...

class AlteredReplicaLogDirTopic(_message.Message):
    __slots__ = ("topic_name", "partitions")
    TOPIC_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_name: str
    partitions: _containers.RepeatedCompositeFieldContainer[AlteredReplicaLogDir]
    def __init__(self, topic_name: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[AlteredReplicaLogDir, _Mapping]]] = ...) -> None: ...

class AlteredReplicaLogDir(_message.Message):
    __slots__ = ("partition_index", "error_code", "error_message")
    PARTITION_INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    partition_index: int
    error_code: int
    error_message: str
    def __init__(self, partition_index: _Optional[int] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class OnlineLogDirRequest(_message.Message):
    __slots__ = ("broker_id", "path", "validate_only")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    path: str
    validate_only: bool
    def __init__(self, broker_id: _Optional[int] = ..., path: _Optional[str] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class OnlineLogDirResponse(_message.Message):
    __slots__ = ("replicas", "offline", "in_doubt", "deleted")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    offline: int
    in_doubt: int
    deleted: int
    def __init__(self, replicas: _Optional[int] = ..., offline: _Optional[int] = ..., in_doubt: _Optional[int] = ..., deleted: _Optional[int] = ...) -> None: ...
