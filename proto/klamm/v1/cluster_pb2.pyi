from klamm.v1 import partition_pb2 as _partition_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AuthenticateRequest(_message.Message):
    __slots__ = ("mechanism", "exchange_id", "auth_bytes")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    AUTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    mechanism: str
    exchange_id: str
    auth_bytes: bytes
    def __init__(self, mechanism: _Optional[str] = ..., exchange_id: _Optional[str] = ..., auth_bytes: _Optional[bytes] = ...) -> None: ...

class AuthenticateResponse(_message.Message):
    __slots__ = ("exchange_id", "auth_bytes", "token", "session_lifetime_ms", "principal")
    EXCHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    AUTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SESSION_LIFETIME_MS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    exchange_id: str
    auth_bytes: bytes
    token: str
    session_lifetime_ms: int
    principal: str
    def __init__(self, exchange_id: _Optional[str] = ..., auth_bytes: _Optional[bytes] = ..., token: _Optional[str] = ..., session_lifetime_ms: _Optional[int] = ..., principal: _Optional[str] = ...) -> None: ...

class DescribeFindingsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeFindingsResponse(_message.Message):
    __slots__ = ("findings",)
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("kind", "detail", "topic", "partition", "broker")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    detail: str
    topic: str
    partition: int
    broker: int
    def __init__(self, kind: _Optional[str] = ..., detail: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., broker: _Optional[int] = ...) -> None: ...

class DescribeClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "controller_id", "controller_address", "controller_epoch", "brokers", "node_id", "node_role", "controllers", "broker_protocol", "dead_brokers")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLERS_FIELD_NUMBER: _ClassVar[int]
    BROKER_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    DEAD_BROKERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller_id: int
    controller_address: str
    controller_epoch: int
    brokers: _containers.RepeatedCompositeFieldContainer[DescribedBroker]
    node_id: int
    node_role: str
    controllers: _containers.RepeatedCompositeFieldContainer[DescribedController]
    broker_protocol: str
    dead_brokers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cluster_id: _Optional[str] = ..., controller_id: _Optional[int] = ..., controller_address: _Optional[str] = ..., controller_epoch: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[DescribedBroker, _Mapping]]] = ..., node_id: _Optional[int] = ..., node_role: _Optional[str] = ..., controllers: _Optional[_Iterable[_Union[DescribedController, _Mapping]]] = ..., broker_protocol: _Optional[str] = ..., dead_brokers: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribedController(_message.Message):
    __slots__ = ("id", "address", "unfit")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    UNFIT_FIELD_NUMBER: _ClassVar[int]
    id: int
    address: str
    unfit: str
    def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., unfit: _Optional[str] = ...) -> None: ...

class DescribedBroker(_message.Message):
    __slots__ = ("id", "endpoint", "epoch", "rack", "state")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: int
    endpoint: _partition_pb2.Endpoint
    epoch: int
    rack: str
    state: str
    def __init__(self, id: _Optional[int] = ..., endpoint: _Optional[_Union[_partition_pb2.Endpoint, _Mapping]] = ..., epoch: _Optional[int] = ..., rack: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class ReadStateChangesRequest(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class ReadStateChangesResponse(_message.Message):
    __slots__ = ("lines", "truncated")
    LINES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedScalarFieldContainer[bytes]
    truncated: bool
    def __init__(self, lines: _Optional[_Iterable[bytes]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class DescribeLogHeadsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeLogHeadsResponse(_message.Message):
    __slots__ = ("heads",)
    HEADS_FIELD_NUMBER: _ClassVar[int]
    heads: _containers.RepeatedCompositeFieldContainer[LogHead]
    def __init__(self, heads: _Optional[_Iterable[_Union[LogHead, _Mapping]]] = ...) -> None: ...

class LogHead(_message.Message):
    __slots__ = ("node", "incarnation", "next_seq", "digest", "boot_id", "flushed_seq", "flushed_digest")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_SEQ_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: str
    next_seq: int
    digest: str
    boot_id: str
    flushed_seq: int
    flushed_digest: str
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[str] = ..., next_seq: _Optional[int] = ..., digest: _Optional[str] = ..., boot_id: _Optional[str] = ..., flushed_seq: _Optional[int] = ..., flushed_digest: _Optional[str] = ...) -> None: ...
