"""What a client for brokers is opened with, and what is there once it is open."""

from typing import NamedTuple

from cluster.model.broker import Broker, Endpoint
from cluster.process.tls import ProcessTls
from cluster.rpc.authentication import Authentication
from cluster.rpc.rights import KnownRules
from controller.ports import BrokerClient


class ProcessSecurity(NamedTuple):
    """The keys and certificates of a process, what authenticates its users, and the rules of its authorizer, None
    without.
    """

    tls: ProcessTls
    authentication: Authentication
    rules: KnownRules | None


class OpenedClient(NamedTuple):
    """`as_broker`: what the controller registers as a broker; None: nothing. `advertised`: its Kafka listeners, as
    brokers and clients are told.
    """

    client: BrokerClient
    as_broker: Broker | None = None
    advertised: tuple[Endpoint, ...] = ()
