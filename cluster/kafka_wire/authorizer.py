"""Asks a broker whether it has an authorizer.

Source: Kafka AclApis.handleDescribeAcls, which answers SECURITY_DISABLED where there is none.
"""

from typing import Final

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.acls import DescribeAclsRequest, DescribeAclsResponse
from cluster.model.errors import ErrorCode

_ANY: Final = 1
_VERSION: Final = 1
_ALL_ACLS: Final = DescribeAclsRequest(
    resource_type_filter=_ANY,
    resource_name_filter=None,
    pattern_type_filter=_ANY,
    principal_filter=None,
    host_filter=None,
    operation=_ANY,
    permission_type=_ANY,
)


async def has_authorizer(connection: KafkaConnection, timeout_s: float) -> bool:
    """Whether the broker at the other end has one. Raises PeerUnreachableError."""
    answer = await connection.call(_ALL_ACLS, _VERSION, DescribeAclsResponse, timeout_s=timeout_s)
    return answer.error_code != ErrorCode.SECURITY_DISABLED
