"""Opens the client for the kind of brokers that the configuration names: klamm's agents, or brokers of Apache Kafka."""

from contextlib import AsyncExitStack

from cluster.config.config import NodeConfig
from cluster.metrics.registry import Metrics
from cluster.requests.context import RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.process_servers import channel_security
from cluster.zookeeper.port import ZooKeeper
from controller.adapters.grpc_broker_client import GrpcBrokerClient
from controller.opened_clients import OpenedClient, ProcessSecurity


async def open_broker_client(
    config: NodeConfig,
    zookeeper: ZooKeeper,
    handler: RequestHandler,
    admission: Admission,
    *,
    security: ProcessSecurity,
    metrics: Metrics,
    cleanup: AsyncExitStack,
) -> OpenedClient:
    """The client for the brokers of this cluster, closed by `cleanup`.

    With Kafka's brokers also the listeners for them are opened, of which the client tells them. Raises StartupError if
    an address cannot be bound.
    """
    if config.settings.klamm_broker_protocol == "klamm":
        agents = GrpcBrokerClient(config.settings, channel_security(security.tls))
        cleanup.push_async_callback(agents.close)
        return OpenedClient(agents)
    from controller.kafka_broker_clients import open_kafka_client  # noqa: PLC0415 - only Kafka's brokers need its codec.

    return await open_kafka_client(
        config, zookeeper, handler, admission, security=security, metrics=metrics, cleanup=cleanup
    )
