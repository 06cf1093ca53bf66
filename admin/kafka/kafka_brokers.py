"""Asks brokers of Apache Kafka by Kafka's protocol, over one connection for each, opened when it is first needed.

Commands use PLAINTEXT listeners only: they have no credentials for others.
"""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from admin.kafka.kafka_dry_runs import plan_deletion, with_reasons
from admin.kafka.kafka_requests import RESPONSES, answer_type, message_of, refusal, response_of
from cluster.kafka_wire.apis import api_of
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.connections import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from cluster.kafka_wire.messages.data import DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult
from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError, known_code
from cluster.requests.cluster import DescribedBroker
from cluster.requests.data import DeleteRecordsRequest, DeleteRecordsResponse
from cluster.requests.log_dirs import DescribedLogDir, DescribedLogDirPartition, DescribedLogDirTopic

_CLIENT_ID: Final = "klamm-admin"
_CONNECT_TIMEOUT_S: Final = 2.0
_PLAINTEXT: Final = "PLAINTEXT"

_Answer = TypeVar("_Answer", bound=Message)


async def speaks_kafka(address: str, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a listener of Apache Kafka answers at this address, HOST:PORT: one without TLS, or with `tls` one under
    it.
    """
    for context in (None,) if tls is None else (tls, None):
        try:
            opened = await _open(_endpoint(address), _CONNECT_TIMEOUT_S, context)
        except PeerUnreachableError:
            continue
        opened.connection.close()
        return True
    return False


class _Opened(NamedTuple):
    """Holds a connection, and the versions of each API that the broker knows."""

    connection: KafkaConnection
    versions: Mapping[int, ApiVersion]


class KafkaBrokers:
    """Asks the brokers of a cluster by address. Each call is one attempt.

    It raises PeerUnreachableError if there is no answer, ApiError(UNSUPPORTED_VERSION) if the broker cannot be asked:
    its listener is not PLAINTEXT, or it has no such request.
    """

    def __init__(self) -> None:
        self._described: dict[str, DescribedBroker] = {}
        self._opened: dict[str, _Opened] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def learn(self, brokers: Iterable[DescribedBroker]) -> None:
        """Remember the security protocol of each broker's listener."""
        self._described |= {broker.endpoint.address: broker for broker in brokers}

    @property
    def not_connected_to(self) -> Mapping[str, Sequence[int]]:
        """The ids of the brokers that do not take PLAINTEXT, by the security protocol of their listeners."""
        found: dict[str, list[int]] = {}
        for broker in self._described.values():
            if broker.endpoint.security_protocol != _PLAINTEXT:
                found.setdefault(broker.endpoint.security_protocol, []).append(broker.id)
        return found

    async def call(self, address: str, request: Any, timeout_ms: int) -> Any:
        """Carry out a request of klamm by Kafka's protocol, and return the response that klamm's brokers would send."""
        if type(request) not in RESPONSES:
            raise refusal(address, request)
        ask = partial(self._ask, address, timeout_ms / 1000)
        if isinstance(request, DeleteRecordsRequest) and request.validate_only:
            return await plan_deletion(ask, request)
        response = response_of(request, await ask(message_of(request), answer_type(request)))
        return await with_reasons(ask, request, response) if isinstance(response, DeleteRecordsResponse) else response

    async def describe_log_dirs(
        self, address: str, timeout_ms: int, *, with_replicas: bool
    ) -> Sequence[DescribedLogDir]:
        """Describe the broker's log directories, each with an error if it has failed."""
        request = DescribeLogDirsRequest(topics=None if with_replicas else ())
        answer = await self._ask(address, timeout_ms / 1000, request, DescribeLogDirsResponse)
        if answer.error_code:
            raise ApiError(known_code(answer.error_code), f"{address} does not describe its log directories")
        return tuple(map(_described, answer.results))

    def close(self) -> None:
        while self._opened:
            self._opened.popitem()[1].connection.close()

    async def _ask(self, address: str, timeout_s: float, message: Message, answer_type: type[_Answer]) -> _Answer:
        """Send one Kafka request, in the newest version that both sides know."""
        async with self._opening[address]:
            opened = self._opened.get(address)
            if opened is None or not opened.connection.is_open:
                opened = self._opened[address] = await _open(self._endpoint(address), timeout_s)
        version = _version(address, message, opened.versions)
        return await opened.connection.call(message, version, answer_type, timeout_s=timeout_s)

    def _endpoint(self, address: str) -> Endpoint:
        described = self._described.get(address)
        if described is not None and described.endpoint.security_protocol != _PLAINTEXT:
            takes = f"broker {described.id} at {address} takes {described.endpoint.security_protocol} only"
            why = f"{takes}, and klamm's commands connect to PLAINTEXT listeners of Kafka's brokers: use Kafka's tools"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)
        return _endpoint(address)


def _described(found: DescribeLogDirsResult) -> DescribedLogDir:
    topics = tuple(
        DescribedLogDirTopic(
            topic.name,
            tuple(
                DescribedLogDirPartition(
                    replica.partition_index, replica.partition_size, replica.offset_lag, replica.is_future_key
                )
                for replica in topic.partitions
            ),
        )
        for topic in found.topics
    )
    code = known_code(found.error_code)
    return DescribedLogDir(code, found.log_dir, topics, found.total_bytes, found.usable_bytes)


async def _open(endpoint: Endpoint, timeout_s: float, tls: ssl.SSLContext | None = None) -> _Opened:
    connection = await KafkaConnection.open(
        endpoint, client_id=_CLIENT_ID, timeout_s=min(timeout_s, _CONNECT_TIMEOUT_S), tls=tls
    )
    try:
        answer = await connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_s=timeout_s)
    except BaseException:
        connection.close()
        raise
    return _Opened(connection, {known.api_key: known for known in answer.api_keys})


def _endpoint(address: str) -> Endpoint:
    """Parse an address as `Endpoint.address` makes it."""
    host, _, port = address.rpartition(":")
    return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))


def _version(address: str, message: Message, offered: Mapping[int, ApiVersion]) -> int:
    known = api_of(type(message))
    theirs = offered.get(known.key)
    newest = -1 if theirs is None else min(known.latest_version, theirs.max_version)
    if theirs is None or newest < max(known.oldest_version, theirs.min_version):
        why = f"the broker at {address} has no {known.key.name} in a version that klamm knows"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{why}: is it of Apache Kafka 2.4 to 3.9?")
    return newest
