"""Which brokers are new, dead or back as a new incarnation. Source: Kafka KafkaController.processBrokerChange."""

from collections.abc import Mapping

from msgspec import Struct

from cluster.broker import BrokerEpoch, BrokerId, RegisteredBroker


class BrokerChanges(Struct, frozen=True):
    """Each sorted by id. `bounced`: known, but registered again since, so it may have forgotten everything."""

    new: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]
    dead: tuple[BrokerId, ...]


def plan_broker_changes(
    registered: Mapping[BrokerId, RegisteredBroker], known: Mapping[BrokerId, BrokerEpoch]
) -> BrokerChanges:
    """Compare what ZooKeeper has with what is known: late and repeated notifications do no harm (BK-1, BK-4)."""
    return BrokerChanges(
        new=tuple(sorted(registered.keys() - known.keys())),
        bounced=tuple(b for b in sorted(registered.keys() & known.keys()) if registered[b].epoch > known[b]),
        dead=tuple(sorted(known.keys() - registered.keys())),
    )
