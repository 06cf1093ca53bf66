"""Decides which registered brokers can join the cluster."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from cluster.model.broker import Broker, BrokerId, BrokerProtocol
from cluster.model.listeners import ListenerNames
from controller.decisions.configs.features import incompatible_features

UNREADABLE: Final = "has a registration that cannot be read"
_NAMED: Final = 3
"""Brokers named with a reason in one sentence."""


def why_not_admitted(
    broker: Broker,
    listeners: ListenerNames,
    protocol: BrokerProtocol,
    levels: Mapping[str, int],
    controllers: AbstractSet[str] = frozenset(),
    *,
    authenticates: bool = False,
) -> str | None:
    """Say why a broker cannot join, in words that follow its name; None if it can.

    It needs a listener that the controller connects to (RQ-30), support for every finalized feature (FT-2), and to be
    of the kind that the controller speaks to (D-80). A broker without a version of klamm may be one before 0.3, so the
    protocol `klamm` admits it. `controllers`: the addresses of controllers' listeners, none of which is a broker's
    (D-109). `authenticates`: whether the controller has credentials for Kafka's brokers.
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
    if protocol == "kafka" and endpoint.has_sasl and not authenticates:
        return (
            f"takes control requests at {endpoint.listener} with {endpoint.security_protocol} only: give the "
            "controllers sasl.mechanism.inter.broker.protocol and its sasl.jaas.config"
        )
    borrowed = next((e for e in broker.endpoints if e.address in controllers), None)
    if borrowed is not None:
        return (
            f"has the address of a controller of klamm as its listener {borrowed.listener}, {borrowed.address}: "
            "correct its advertised.listeners, or delete the registration if it is no broker"
        )
    unsupported = incompatible_features(broker, levels)
    if unsupported:
        return f"does not support the finalized features {', '.join(sorted(unsupported))}"
    return None


def why_unfit(
    registered: Collection[BrokerId], refused: Mapping[BrokerId, str], adopted: Collection[BrokerId]
) -> str | None:
    """Say why a controller must not govern these brokers, in words that follow "this controller"; None if it may.

    It would not admit one that the adoption names, which was asked for its settings before and is known to be one of
    the cluster's; or it would admit none (D-91). Any other broker that cannot join keeps nobody from governing the
    rest: one registration that is wrong, or of a stranger, must not stop a cluster. Without a live broker a controller
    would take every partition's leader away.

    `refused`: those of `registered` that cannot join, and why. `adopted`: named by the adoption, none if there is none.
    """
    named = sorted(refused.keys() & set(adopted))
    if named:
        return f"would not admit all brokers that were adopted: {_with_reasons(named, refused)}"
    if refused and refused.keys() >= set(registered):
        return f"would admit none of the registered brokers: {_with_reasons(sorted(refused), refused)}"
    return None


def _with_reasons(brokers: list[BrokerId], refused: Mapping[BrokerId, str]) -> str:
    reasons = "; ".join(f"broker {broker} {refused[broker]}" for broker in brokers[:_NAMED])
    return reasons + (f" and {len(brokers) - _NAMED} more" if len(brokers) > _NAMED else "")
