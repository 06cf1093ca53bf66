"""What a controller answers by itself, because clients ask every node of the cluster and it is listed among them."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import RequestHeader, encode_response
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ListGroupsResponse,
    ListTransactionsResponse,
)
from cluster.kafka_wire.messages.data import DescribeLogDirsResponse, DescribeLogDirsResult
from cluster.model.errors import ClusterError, ErrorCode
from controller.adapters.kafka.versions import announced

Connected = Callable[[], Awaitable[KafkaConnection]]
_ASKED_VERSION: Final = 3
_TIMEOUT_S: Final = 5.0


class LocalAnswers:
    """`own`: the APIs that only the active controller answers. `data`: the directory of the controller's own data."""

    def __init__(self, own: Collection[ApiKey], data: str) -> None:
        self._own = own
        # A controller has no replicas and coordinates neither groups nor transactions. Passed on, these would show
        # what some broker has a second time. Without any directory clients take the answer for a refusal.
        self._answers: dict[ApiKey, Message] = {
            ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsResponse(results=(DescribeLogDirsResult(log_dir=data),)),
            ApiKey.LIST_GROUPS: ListGroupsResponse(),
            ApiKey.LIST_TRANSACTIONS: ListTransactionsResponse(),
        }

    def answer(self, key: ApiKey) -> Message | None:
        """The answer about this node; None if a broker is to be asked."""
        return self._answers.get(key)

    async def api_versions(self, header: RequestHeader, connected: Connected) -> bytes:
        """The response to ApiVersions, with the versions of the broker to which the connection passes requests on."""

        async def found() -> Message:
            return announced(self._own, await _versions_of_broker(connected))

        return await api_versions(header, found)


async def api_versions(header: RequestHeader, found: Callable[[], Awaitable[Message]]) -> bytes:
    """The response to ApiVersions. Of a version that is not known here it is version 0 and an error, from which the
    client learns which one to ask with (KIP-511).
    """
    known = api(ApiKey.API_VERSIONS)
    if not known.has(header.api_version):
        own = ApiVersion(
            api_key=ApiKey.API_VERSIONS, min_version=known.oldest_version, max_version=known.latest_version
        )
        refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own,))
        return encode_response(refused, 0, header.correlation_id)
    return encode_response(await found(), header.api_version, header.correlation_id)


async def _versions_of_broker(connected: Connected) -> ApiVersionsResponse | None:
    """The versions of the broker to which the connection passes requests on; None if there is none."""
    request = ApiVersionsRequest(client_software_name="klamm", client_software_version="1")
    try:
        connection = await connected()
        answer = await connection.call(request, _ASKED_VERSION, ApiVersionsResponse, timeout_s=_TIMEOUT_S)
    except ClusterError:
        return None
    return answer if answer.error_code == ErrorCode.NONE else None
