"""The servers of a process: one for each of its two listeners, started and stopped together."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable

import structlog

from cluster.broker import Endpoint
from cluster.process.config import NodeConfig, host_and_port
from cluster.rpc.channels import MESSAGE_BYTES_MAX
from cluster.rpc.serving import Listener, RpcServer

_log = structlog.stdlib.get_logger()


class ProcessServers:
    """`endpoints`: what to register; the first is for clients."""

    def __init__(self, client: RpcServer, control: RpcServer, endpoints: tuple[Endpoint, ...]) -> None:
        self.client, self.control, self.endpoints = client, control, endpoints

    async def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new calls, let those in flight finish for `grace_s`, then cancel them."""
        await asyncio.gather(self.client.stop(grace_s), self.control.stop(grace_s))


async def serve_both(config: NodeConfig, serve: Callable[[Listener], Awaitable[RpcServer]]) -> ProcessServers:
    """Serve at both listeners of the process. Raises StartupError if an address cannot be bound."""
    _warn_if_exposed(config)
    names = config.settings.listener_names
    client = await serve(Listener(config.listen, names.client, config.settings.socket_request_max_bytes))
    try:
        control = await serve(Listener(config.control_listen, names.control, MESSAGE_BYTES_MAX, is_control=True))
    except BaseException:
        await client.stop(0)
        raise
    return ProcessServers(client, control, config.endpoints(client.port, control.port))


def _warn_if_exposed(config: NodeConfig) -> None:
    """Without TLS and authentication, whoever reaches a listener controls the cluster."""
    exposed = [address for address in (config.listen, config.control_listen) if not _is_loopback(address)]
    if exposed:
        _log.warning(
            "Listeners can be reached from other machines, and there is neither TLS nor authentication: let a firewall "
            "admit only the cluster and its clients",
            listeners=exposed,
        )


def _is_loopback(address: str) -> bool:
    host, _ = host_and_port(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
