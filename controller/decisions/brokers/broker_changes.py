"""Finds new, dead and bounced brokers. Source: Kafka KafkaController.processBrokerChange."""

from collections.abc import Mapping

from msgspec import Struct

from cluster.model.broker import BrokerEpoch, BrokerId, RegisteredBroker


class BrokerChanges(Struct, frozen=True):
    """Broker ids, each sorted. `bounced`: known, but registered again since, so the process has restarted."""

    new: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]
    dead: tuple[BrokerId, ...]


def plan_broker_changes(
    registered: Mapping[BrokerId, RegisteredBroker], known: Mapping[BrokerId, BrokerEpoch]
) -> BrokerChanges:
    """Compare the registrations with the known brokers; late and repeated notifications are harmless (BK-1, BK-4)."""
    return BrokerChanges(
        new=tuple(sorted(registered.keys() - known.keys())),
        bounced=tuple(b for b in sorted(registered.keys() & known.keys()) if registered[b].epoch > known[b]),
        dead=tuple(sorted(known.keys() - registered.keys())),
    )
