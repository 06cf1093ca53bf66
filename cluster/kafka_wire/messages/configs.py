"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: AlterClientQuotasRequest 0-1, AlterClientQuotasResponse 0-1, AlterConfigsRequest 0-2,
AlterConfigsResponse 0-2, AlterUserScramCredentialsRequest 0, AlterUserScramCredentialsResponse 0,
DescribeConfigsRequest 0-4, DescribeConfigsResponse 0-4, IncrementalAlterConfigsRequest 0-1,
IncrementalAlterConfigsResponse 0-1.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterClientQuotasRequestEntityData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    entity_type: str = ""
    entity_name: str | None = ""


class OpData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    key: str = ""
    value: float = 0.0
    remove: bool = False


class AlterClientQuotasRequestEntryData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    entity: tuple[AlterClientQuotasRequestEntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


class AlterClientQuotasRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasRequest"

    entries: tuple[AlterClientQuotasRequestEntryData, ...] = ()
    validate_only: bool = False


class AlterClientQuotasResponseEntityData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasResponse"

    entity_type: str = ""
    entity_name: str | None = ""


class AlterClientQuotasResponseEntryData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasResponse"

    error_code: int = 0
    error_message: str | None = ""
    entity: tuple[AlterClientQuotasResponseEntityData, ...] = ()


class AlterClientQuotasResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterClientQuotasResponse"

    throttle_time_ms: int = 0
    entries: tuple[AlterClientQuotasResponseEntryData, ...] = ()


class AlterConfigsRequestAlterableConfig(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsRequest"

    name: str = ""
    value: str | None = ""


class AlterConfigsRequestAlterConfigsResource(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsRequest"

    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[AlterConfigsRequestAlterableConfig, ...] = ()


class AlterConfigsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsRequest"

    resources: tuple[AlterConfigsRequestAlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResponseAlterConfigsResourceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsResponse"

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


class AlterConfigsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterConfigsResponse"

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResponseAlterConfigsResourceResponse, ...] = ()


class ScramCredentialDeletion(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsRequest"

    name: str = ""
    mechanism: int = 0


class ScramCredentialUpsertion(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsRequest"

    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsRequest"

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsResponse"

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


class AlterUserScramCredentialsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterUserScramCredentialsResponse"

    throttle_time_ms: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


class DescribeConfigsResource(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsRequest"

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = ()


class DescribeConfigsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsRequest"

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False  # 1+
    include_documentation: bool = False  # 3+


class DescribeConfigsSynonym(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    name: str = ""  # 1+
    value: str | None = ""  # 1+
    source: int = 0  # 1+


class DescribeConfigsResourceResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    is_default: bool = False  # 0
    config_source: int = -1  # 1+
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()  # 1+
    config_type: int = 0  # 3+
    documentation: str | None = ""  # 3+


class DescribeConfigsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...] = ()


class IncrementalAlterConfigsRequestAlterableConfig(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsRequest"

    name: str = ""
    config_operation: int = 0
    value: str | None = ""


class IncrementalAlterConfigsRequestAlterConfigsResource(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsRequest"

    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsRequest"

    resources: tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...] = ()
    validate_only: bool = False


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsResponse"

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


class IncrementalAlterConfigsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "IncrementalAlterConfigsResponse"

    throttle_time_ms: int = 0
    responses: tuple[IncrementalAlterConfigsResponseAlterConfigsResourceResponse, ...] = ()
