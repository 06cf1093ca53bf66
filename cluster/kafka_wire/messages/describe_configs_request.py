"""DescribeConfigsRequest, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


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
