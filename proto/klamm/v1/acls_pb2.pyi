from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AclCreation(_message.Message):
    __slots__ = ("resource_type", "resource_name", "principal", "host", "operation", "permission_type", "resource_pattern_type")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int
    resource_pattern_type: int
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission_type: _Optional[int] = ..., resource_pattern_type: _Optional[int] = ...) -> None: ...

class CreateAclsRequest(_message.Message):
    __slots__ = ("creations",)
    CREATIONS_FIELD_NUMBER: _ClassVar[int]
    creations: _containers.RepeatedCompositeFieldContainer[AclCreation]
    def __init__(self, creations: _Optional[_Iterable[_Union[AclCreation, _Mapping]]] = ...) -> None: ...

class AclCreationResult(_message.Message):
    __slots__ = ("error_code", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class CreateAclsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AclCreationResult]
    def __init__(self, results: _Optional[_Iterable[_Union[AclCreationResult, _Mapping]]] = ...) -> None: ...

class DescribeAclsRequest(_message.Message):
    __slots__ = ("resource_type_filter", "operation", "permission_type", "pattern_type_filter", "resource_name_filter", "principal_filter", "host_filter")
    RESOURCE_TYPE_FILTER_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FILTER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FILTER_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FILTER_FIELD_NUMBER: _ClassVar[int]
    HOST_FILTER_FIELD_NUMBER: _ClassVar[int]
    resource_type_filter: int
    operation: int
    permission_type: int
    pattern_type_filter: int
    resource_name_filter: str
    principal_filter: str
    host_filter: str
    def __init__(self, resource_type_filter: _Optional[int] = ..., operation: _Optional[int] = ..., permission_type: _Optional[int] = ..., pattern_type_filter: _Optional[int] = ..., resource_name_filter: _Optional[str] = ..., principal_filter: _Optional[str] = ..., host_filter: _Optional[str] = ...) -> None: ...

class AclDescription(_message.Message):
    __slots__ = ("principal", "host", "operation", "permission_type")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(self, principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission_type: _Optional[int] = ...) -> None: ...

class DescribeAclsResource(_message.Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: _containers.RepeatedCompositeFieldContainer[AclDescription]
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[int] = ..., acls: _Optional[_Iterable[_Union[AclDescription, _Mapping]]] = ...) -> None: ...

class DescribeAclsResponse(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[DescribeAclsResource]
    def __init__(self, resources: _Optional[_Iterable[_Union[DescribeAclsResource, _Mapping]]] = ...) -> None: ...

class DeleteAclsFilter(_message.Message):
    __slots__ = ("resource_type_filter", "operation", "permission_type", "pattern_type_filter", "resource_name_filter", "principal_filter", "host_filter")
    RESOURCE_TYPE_FILTER_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FILTER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FILTER_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FILTER_FIELD_NUMBER: _ClassVar[int]
    HOST_FILTER_FIELD_NUMBER: _ClassVar[int]
    resource_type_filter: int
    operation: int
    permission_type: int
    pattern_type_filter: int
    resource_name_filter: str
    principal_filter: str
    host_filter: str
    def __init__(self, resource_type_filter: _Optional[int] = ..., operation: _Optional[int] = ..., permission_type: _Optional[int] = ..., pattern_type_filter: _Optional[int] = ..., resource_name_filter: _Optional[str] = ..., principal_filter: _Optional[str] = ..., host_filter: _Optional[str] = ...) -> None: ...

class DeleteAclsRequest(_message.Message):
    __slots__ = ("filters",)
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[DeleteAclsFilter]
    def __init__(self, filters: _Optional[_Iterable[_Union[DeleteAclsFilter, _Mapping]]] = ...) -> None: ...

class DeleteAclsMatchingAcl(_message.Message):
    __slots__ = ("error_code", "resource_type", "resource_name", "principal", "host", "operation", "permission_type", "pattern_type", "error_message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int
    pattern_type: int
    error_message: str
    def __init__(self, error_code: _Optional[int] = ..., resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission_type: _Optional[int] = ..., pattern_type: _Optional[int] = ..., error_message: _Optional[str] = ...) -> None: ...

class DeleteAclsFilterResult(_message.Message):
    __slots__ = ("error_code", "error_message", "matching_acls")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MATCHING_ACLS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    error_message: str
    matching_acls: _containers.RepeatedCompositeFieldContainer[DeleteAclsMatchingAcl]
    def __init__(self, error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., matching_acls: _Optional[_Iterable[_Union[DeleteAclsMatchingAcl, _Mapping]]] = ...) -> None: ...

class DeleteAclsResponse(_message.Message):
    __slots__ = ("filter_results",)
    FILTER_RESULTS_FIELD_NUMBER: _ClassVar[int]
    filter_results: _containers.RepeatedCompositeFieldContainer[DeleteAclsFilterResult]
    def __init__(self, filter_results: _Optional[_Iterable[_Union[DeleteAclsFilterResult, _Mapping]]] = ...) -> None: ...
