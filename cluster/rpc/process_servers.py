"""Starts and stops the servers of a process together: one at each of its listeners."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import structlog
from msgspec.structs import replace

from cluster.config.config import NodeConfig, host_and_port
from cluster.config.kafka_sasl import kafka_sasl
from cluster.config.listener_addresses import named_listeners
from cluster.config.listener_sasl import sasl_of
from cluster.config.listener_security import security_name, server_tls_of
from cluster.config.scram_users import ScramUsers
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import Endpoint
from cluster.model.listeners import EXTERNAL_LISTENER, is_loopback
from cluster.process.tls import ProcessTls
from cluster.rpc.authentication import Authentication
from cluster.rpc.channels import MESSAGE_BYTES_MAX
from cluster.rpc.serving import Listener, RpcServer
from cluster.rpc.transport_security import ChannelSecurity
from cluster.sasl.listeners import ListenerSasl
from cluster.sasl.mechanisms import SCRAM

_log = structlog.stdlib.get_logger()


class ProcessServers:
    """Holds the running servers of a process. `endpoints`: the endpoints to register, that for clients first."""

    def __init__(self, client: RpcServer, others: Sequence[RpcServer], endpoints: tuple[Endpoint, ...]) -> None:
        self.client, self._others, self.endpoints = client, others, endpoints

    async def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new calls, let those in flight finish for `grace_s`, then cancel them."""
        await asyncio.gather(*(server.stop(grace_s) for server in (self.client, *self._others)))


async def serve_listeners(
    config: NodeConfig,
    serve: Callable[[Listener], Awaitable[RpcServer]],
    tls: ProcessTls,
    authentication: Authentication | None = None,
) -> ProcessServers:
    """Start a server at each listener of the process. `authentication`: see `process_authentication`.

    Raises StartupError if an address cannot be bound.
    """
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
        for listener in (_secured(one, config.settings, tls, authentication) for one in listeners):
            servers.append(await serve(listener))  # noqa: PERF401 - if a later one fails, these are stopped.
    except BaseException:
        for server in servers:
            await server.stop(0)
        raise
    return ProcessServers(servers[0], servers[1:], config.endpoints(*(server.port for server in servers)))


def _secured(
    listener: Listener, settings: Settings, tls: ProcessTls, authentication: Authentication | None
) -> Listener:
    mapping = settings.mapping_of(security_name(settings, listener.name))
    return replace(
        listener,
        tls=tls.of_listener(listener.name),
        mapping=mapping,
        authentication=authentication,
        knows_nodes=settings.klamm_broker_protocol == "klamm",
    )


def _sasl_of_listeners(config: NodeConfig) -> dict[str, ListenerSasl]:
    names = named_listeners(config.settings, has_external=config.external_listen is not None, has_metrics=False)
    found = {name: sasl_of(config.settings, security_name(config.settings, name)) for name in names}
    return {name: sasl for name, sasl in found.items() if sasl is not None}


def scram_users(config: NodeConfig) -> ScramUsers:
    """Make what knows the users of the process's listeners; it reads none if no listener has SCRAM."""
    settings = config.settings
    of_kafka = kafka_sasl(settings, config.kafka_listeners) if settings.klamm_broker_protocol == "kafka" else {}
    listeners = [*_sasl_of_listeners(config).values(), *of_kafka.values()]
    return ScramUsers(is_needed=any(mechanism in SCRAM for sasl in listeners for mechanism in sasl.mechanisms))


def process_authentication(config: NodeConfig, users: ScramUsers, metrics: Metrics) -> Authentication:
    """Make what authenticates the users of the process's listeners. Raises ConfigError for a file that cannot be used.

    Its metrics are there if no listener has SASL, too.
    """
    listeners = _sasl_of_listeners(config)
    delay_ms = config.settings.connection_failed_authentication_delay_ms
    authentication = Authentication(listeners, users, metrics, failure_delay_ms=delay_ms)
    users.on_removal = authentication.end_sessions_of
    return authentication


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
