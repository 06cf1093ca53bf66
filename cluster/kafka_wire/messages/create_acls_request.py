"""CreateAclsRequest, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AclCreation(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsRequest"

    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3  # 1+
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class CreateAclsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsRequest"

    creations: tuple[AclCreation, ...] = ()
