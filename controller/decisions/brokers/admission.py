"""Decides which registered brokers can join the cluster."""

from collections.abc import Mapping

from cluster.broker import Broker, BrokerProtocol
from cluster.listeners import ListenerNames
from controller.decisions.configs.features import incompatible_features


def why_not_admitted(
    broker: Broker, listeners: ListenerNames, protocol: BrokerProtocol, levels: Mapping[str, int]
) -> str | None:
    """Why a broker cannot join, in words that follow its name; None if it can.

    It needs a listener that the controller connects to (RQ-30), support for every finalized feature (FT-2), and to be
    of the kind that the controller speaks to (D-80). A broker without a version of klamm may be one before 0.3, so the
    protocol `klamm` admits it.
    """
    endpoint = listeners.control_endpoint(broker.endpoints)
    if protocol == "kafka" and broker.klamm_version:
        return (
            f"runs klamm {broker.klamm_version}, and klamm.broker.protocol of the controllers is kafka: "
            "one cluster has one kind of broker"
        )
    if endpoint is None:
        names = ", ".join(found.listener for found in broker.endpoints)
        return f"has no listener {listeners.control} or {listeners.client} for control requests, only {names}"
    if protocol == "kafka" and endpoint.security_protocol.startswith("SASL_"):
        return (
            f"takes control requests at {endpoint.listener} with {endpoint.security_protocol} only, and klamm cannot "
            "authenticate itself to Kafka's brokers yet"
        )
    unsupported = incompatible_features(broker, levels)
    if unsupported:
        return f"does not support the finalized features {', '.join(sorted(unsupported))}"
    return None
