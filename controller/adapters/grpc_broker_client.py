"""The controller's `BrokerClient` over gRPC: one channel per broker endpoint."""

from cluster.config.settings import Settings
from cluster.model.broker import Broker, BrokerId
from cluster.model.errors import ApiError, PeerUnreachableError, RequestTooLargeError
from cluster.requests import control
from cluster.requests.recovery import DescribeReplicasRequest, DescribeReplicasResponse
from cluster.rpc.client import RpcClient
from cluster.rpc.transport_security import ChannelSecurity


class GrpcBrokerClient:
    """Implements controller.ports.BrokerClient. Listener: RQ-30; timeouts: RQ-32."""

    def __init__(self, settings: Settings, security: ChannelSecurity | None = None) -> None:
        """`security`: which brokers are called under TLS; None: none."""
        timeout_ms = settings.controller_socket_timeout_ms
        self._client = RpcClient(
            connect_timeout_ms=min(settings.socket_connection_setup_timeout_ms, timeout_ms),
            connect_timeout_max_ms=min(settings.socket_connection_setup_timeout_max_ms, timeout_ms),
            security=security,
        )
        self._timeout_ms = settings.request_timeout_ms
        self._listeners = settings.listener_names

    async def send(self, broker: Broker, request: control.ControlRequest) -> control.ControlResponse:
        address = self._address_or_raise(broker)
        try:
            response: control.ControlResponse = await self._client.call(address, request, self._timeout_ms)
        except RequestTooLargeError as error:
            # The broker has not seen it, so it must not count as answered.
            raise PeerUnreachableError(address, str(error)) from error
        except ApiError as error:
            return control.refusal(request, error.code)
        except PeerUnreachableError:
            # The next attempt opens a new connection instead of waiting for this one's reconnect backoff.
            await self._client.forget(address)
            raise
        return response

    def oldest_release(self) -> str | None:
        return None

    def brokers_with_authorizer(self) -> frozenset[BrokerId]:
        return frozenset()

    async def describe_replicas(self, broker: Broker, *, recovers: bool) -> DescribeReplicasResponse:
        address = self._address_or_raise(broker)
        return await self._client.call(address, DescribeReplicasRequest(recovers), self._timeout_ms)

    async def forget(self, broker: Broker) -> None:
        address = self._address(broker)
        if address is not None:
            await self._client.forget(address)

    async def close(self) -> None:
        await self._client.close()

    def _address_or_raise(self, broker: Broker) -> str:
        address = self._address(broker)
        if address is None:
            names = self._listeners
            raise PeerUnreachableError(f"broker {broker.id}", f"it has no listener {names.control} or {names.client}")
        return address

    def _address(self, broker: Broker) -> str | None:
        endpoint = self._listeners.control_endpoint(broker.endpoints)
        return None if endpoint is None else self._client.at(endpoint)
