"""Starts and stops the servers of a process together: one at each of its listeners."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import structlog
from msgspec.structs import replace

from cluster.config.config import NodeConfig, host_and_port
from cluster.config.listener_security import security_name, server_tls_of
from cluster.config.settings import Settings
from cluster.model.broker import Endpoint
from cluster.model.listeners import EXTERNAL_LISTENER, is_loopback
from cluster.process.tls import ProcessTls
from cluster.rpc.channels import MESSAGE_BYTES_MAX
from cluster.rpc.serving import Listener, RpcServer
from cluster.rpc.transport_security import ChannelSecurity

_log = structlog.stdlib.get_logger()


class ProcessServers:
    """Holds the running servers of a process. `endpoints`: the endpoints to register, that for clients first."""

    def __init__(self, client: RpcServer, others: Sequence[RpcServer], endpoints: tuple[Endpoint, ...]) -> None:
        self.client, self._others, self.endpoints = client, others, endpoints

    async def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new calls, let those in flight finish for `grace_s`, then cancel them."""
        await asyncio.gather(*(server.stop(grace_s) for server in (self.client, *self._others)))


async def serve_listeners(
    config: NodeConfig, serve: Callable[[Listener], Awaitable[RpcServer]], tls: ProcessTls
) -> ProcessServers:
    """Start a server at each listener of the process. Raises StartupError if an address cannot be bound."""
    _warn_if_exposed(config)
    names, largest = config.settings.listener_names, config.settings.socket_request_max_bytes
    listeners = [
        Listener(config.listen, names.client, largest),
        Listener(config.control_listen, names.control, MESSAGE_BYTES_MAX, is_control=True),
    ]
    if config.external_listen is not None:
        listeners.append(Listener(config.external_listen, EXTERNAL_LISTENER, largest, is_external=True))
    servers: list[RpcServer] = []
    try:
        for listener in (_secured(one, config.settings, tls) for one in listeners):
            servers.append(await serve(listener))  # noqa: PERF401 - if a later one fails, these are stopped.
    except BaseException:
        for server in servers:
            await server.stop(0)
        raise
    return ProcessServers(servers[0], servers[1:], config.endpoints(*(server.port for server in servers)))


def _secured(listener: Listener, settings: Settings, tls: ProcessTls) -> Listener:
    return replace(listener, tls=tls.of_listener(listener.name), mapping=settings.mapping_of(listener.name))


def _warn_if_exposed(config: NodeConfig) -> None:
    """Warn if other machines reach a listener, and there is no authorizer: whoever does controls the cluster, under TLS
    with a certificate that is trusted.
    """
    exposed = exposed_listeners(config)
    if exposed and not config.settings.authorizer_class_name:
        _log.warning(
            "Listeners can be reached from other machines, and whoever connects may do everything: there is no "
            "authorisation without authorizer.class.name, nor encryption without TLS; set them, or let a firewall "
            "admit only the cluster and its clients",
            listeners=exposed,
        )


def exposed_listeners(config: NodeConfig) -> list[str]:
    """The addresses of the process's gRPC listeners that other machines may reach."""
    return [address for _, address in _reachable(config)]


def has_open_listener(config: NodeConfig) -> bool:
    """Whether other machines reach a gRPC listener of the process without showing a certificate."""
    tls = [server_tls_of(config.settings, security_name(config.settings, name)) for name, _ in _reachable(config)]
    return any(found is None or found.client_auth != "required" for found in tls)


def _reachable(config: NodeConfig) -> Iterator[tuple[str, str]]:
    """Name and address of each gRPC listener that other machines may reach."""
    names = config.settings.listener_names
    listening = (
        (names.client, config.listen),
        (names.control, config.control_listen),
        (EXTERNAL_LISTENER, config.external_listen),
    )
    for name, address in listening:
        if address is not None and not is_loopback(host_and_port(address)[0]):
            yield name, address


def channel_security(tls: ProcessTls) -> ChannelSecurity | None:
    """Make what decides how this process calls other nodes; None: without TLS."""
    return None if tls.peers is None else ChannelSecurity(tls.peers, tls.secured_listeners)
