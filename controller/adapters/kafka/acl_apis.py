"""CreateAcls, DescribeAcls and DeleteAcls of Kafka's clients, answered where this controller has an authorizer.

Source: Kafka AclApis.
"""

from typing import Any, Final

from cluster.kafka_wire.messages import acls as wire_acls
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.errors import ApiError
from cluster.requests import acls
from controller.adapters.kafka.conversions import AnsweredApi, each_refused


def _creations_refused(message: wire_acls.CreateAclsRequest, error: ApiError) -> wire_acls.CreateAclsResponse:
    return wire_acls.CreateAclsResponse(results=each_refused(wire_acls.AclCreationResult, message.creations, error))


def _deletions_refused(message: wire_acls.DeleteAclsRequest, error: ApiError) -> wire_acls.DeleteAclsResponse:
    refused = each_refused(wire_acls.DeleteAclsFilterResult, message.filters, error)
    return wire_acls.DeleteAclsResponse(filter_results=refused)


ACL_APIS: Final[tuple[AnsweredApi[Any], ...]] = (
    AnsweredApi(ApiKey.CREATE_ACLS, acls.CreateAclsRequest, _creations_refused),
    AnsweredApi(ApiKey.DESCRIBE_ACLS, acls.DescribeAclsRequest),
    AnsweredApi(ApiKey.DELETE_ACLS, acls.DeleteAclsRequest, _deletions_refused),
)
