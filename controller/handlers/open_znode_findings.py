"""Findings about znodes that everyone may change although `zookeeper.set.acl` is on: a tool without it made them."""

from typing import Final

from cluster.model.bounds import shortened
from cluster.requests.cluster import Finding
from cluster.znodes import paths
from cluster.zookeeper.acl import CONSUMERS
from controller.active_controller import ActiveController
from controller.ports import ZooKeeperReads

OPEN_ZNODE: Final = "open_znode"
_ALONE: Final = (
    "/brokers",
    "/config",
    "/admin",
    "/controllers",
    CONSUMERS,
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.CLUSTER_ID,
    paths.FEATURE,
    paths.PRODUCER_ID_BLOCK,
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_REPLICA_ELECTION,
    paths.ADOPTION,
)
_PARENTS: Final = (
    paths.BROKERS_IDS,
    paths.BROKERS_TOPICS,
    paths.CONTROLLERS_IDS,
    paths.CONFIG_BROKERS,
    paths.CONFIG_CLIENTS,
    paths.CONFIG_TOPICS,
    "/config/users",
    paths.DELETE_TOPICS,
)
_ACLS: Final = ("/kafka-acl", "/kafka-acl-extended/prefixed")
"""Below each a znode for each type of resource, and below that one for each resource."""
_CHILDREN_MAX: Final = 200
"""Of a parent: health is asked again and again. `klamm doctor` looks at all."""


async def open_znodes(active: ActiveController) -> list[Finding]:
    """Make a finding for each znode that everyone may change; none while `zookeeper.set.acl` is off.

    Raises ZooKeeperError.
    """
    if not active.config.settings.zookeeper_set_acl:
        return []
    examined = await _examined(active.reads)
    if active.config.governs_kafka or await _below(active.reads, (CONSUMERS,)):
        # As Kafka has it, for consumers before 2.0.
        examined.remove(CONSUMERS)
    found = await active.reads.open_to_everyone(examined)
    return [_finding(path) for path, is_open in zip(examined, found, strict=True) if is_open]


async def _examined(zookeeper: ZooKeeperReads) -> list[str]:
    types = await _below(zookeeper, _ACLS)
    children = await _below(zookeeper, (*_PARENTS, *types))
    return [*_ALONE, *_PARENTS, *types, *children]


async def _below(zookeeper: ZooKeeperReads, parents: tuple[str, ...]) -> list[str]:
    listed = await zookeeper.children_many(parents)
    return [
        f"{parent}/{name}"
        for parent, names in zip(parents, listed, strict=True)
        for name in (names or ())[:_CHILDREN_MAX]
    ]


def _finding(path: str) -> Finding:
    named = path if path.isascii() and path.isprintable() else shortened(path)
    return Finding(
        OPEN_ZNODE,
        f"{named}: everyone who reaches ZooKeeper may change it, although zookeeper.set.acl is true: secure it by "
        "klamm zookeeper-security-migration --zookeeper.acl secure",
    )
