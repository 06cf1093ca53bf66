"""The servers of a process: one for each of its two listeners, started and stopped together."""

import asyncio
from collections.abc import Awaitable, Callable

from cluster.broker import Endpoint
from cluster.process.config import NodeConfig
from cluster.rpc.channels import MESSAGE_BYTES_MAX
from cluster.rpc.serving import Listener, RpcServer


class ProcessServers:
    """`endpoints`: what to register; the first is for clients."""

    def __init__(self, client: RpcServer, control: RpcServer, endpoints: tuple[Endpoint, ...]) -> None:
        self.client, self.control, self.endpoints = client, control, endpoints

    async def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new calls, let those in flight finish for `grace_s`, then cancel them."""
        await asyncio.gather(self.client.stop(grace_s), self.control.stop(grace_s))


async def serve_both(config: NodeConfig, serve: Callable[[Listener], Awaitable[RpcServer]]) -> ProcessServers:
    """Serve at both listeners of the process. Raises StartupError if an address cannot be bound."""
    names = config.settings.listener_names
    client = await serve(Listener(config.listen, names.client, config.settings.socket_request_max_bytes))
    try:
        control = await serve(Listener(config.control_listen, names.control, MESSAGE_BYTES_MAX, is_control=True))
    except BaseException:
        await client.stop(0)
        raise
    return ProcessServers(client, control, config.endpoints(client.port, control.port))
