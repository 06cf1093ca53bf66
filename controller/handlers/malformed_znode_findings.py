"""The malformed znodes of the cluster for DescribeFindings, each with its path and why it is skipped.

Those of brokers, topics and partitions are what the controller found when it last read them, which watches keep up to
date; the others are read for the answer. Source: klamm. BD-5
"""

from collections.abc import Iterable
from typing import Final

from cluster.model import bounds
from cluster.model.bounds import shortened
from cluster.requests.cluster import Finding
from cluster.znodes import paths
from cluster.znodes.checks import why_malformed
from controller.active_controller import ActiveController
from controller.ports import ZooKeeperReads

_ALONE: Final = (
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.FEATURE,
    paths.CLUSTER_ID,
    paths.PRODUCER_ID_BLOCK,
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_REPLICA_ELECTION,
)
_PARENTS: Final = (
    paths.CONTROLLERS_IDS,
    paths.CONFIG_BROKERS,
    paths.CONFIG_TOPICS,
    paths.CONFIG_CHANGES,
    paths.DELETE_TOPICS,
)
MALFORMED_ZNODE: Final = "malformed_znode"
_PATH_LENGTH: Final = 400
_CONTENT_LENGTH: Final = 100
_HOW_TO_REPAIR_THE_CLUSTER_ID: Final = (
    "brokers cannot start until it has the id again that is cluster.id in the meta.properties of their log directories;"
    " do not delete it: the next process to start would make up another id"
)


async def malformed_znodes(active: ActiveController) -> list[Finding]:
    """Make a finding for each malformed znode, sorted by path. Raises ZooKeeperError."""
    found = dict(active.store.malformed.items()) | await _read_the_others(active.reads)
    return [znode_finding(path, found[path]) for path in sorted(found)]


async def _read_the_others(zookeeper: ZooKeeperReads) -> dict[str, str]:
    listed = await zookeeper.children_many(_PARENTS)
    children = (f"{parent}/{name}" for parent, names in zip(_PARENTS, listed, strict=True) for name in names or ())
    return await malformed_of(zookeeper, (*_ALONE, *children))


async def malformed_of(zookeeper: ZooKeeperReads, wanted: Iterable[str]) -> dict[str, str]:
    """Path -> why, for those of the znodes that are malformed. Raises ZooKeeperError."""
    examined = tuple(wanted)
    found: dict[str, str] = {}
    for path, znode in zip(examined, await zookeeper.get_many(examined), strict=True):
        why = None if znode is None else why_malformed(path, znode.data)
        if znode is not None and why is not None:
            # The others may be large, or have secrets in them.
            found[path] = f"{why} (content: {_shown(znode.data)})" if path in _ALONE else why
    return found


def _shown(data: bytes) -> str:
    return shortened(data[:_CONTENT_LENGTH].decode(errors="backslashreplace"))


def ways_out_of(topic: str) -> str:
    """Say what can be done about a malformed topic znode."""
    return f"repair the znode, or delete the topic with its records: klamm topics delete {topic}"


def znode_finding(path: str, why: str) -> Finding:
    """The finding about a malformed znode; a long or unprintable path is shortened."""
    named = path if path.isascii() and path.isprintable() and len(path) <= _PATH_LENGTH else shortened(path)
    partition = paths.partition_of_state_path(path)
    detail = f"{named}: {why}; it is skipped until it is repaired or deleted"
    parent, _, name = path.rpartition("/")
    if parent == paths.BROKERS_TOPICS and bounds.TOPIC_NAME.accepts(name):
        return Finding(MALFORMED_ZNODE, f"{named}: {why}; the topic is skipped: {ways_out_of(name)}", name)
    if path == paths.CLUSTER_ID:
        return Finding(MALFORMED_ZNODE, f"{named}: {why}; {_HOW_TO_REPAIR_THE_CLUSTER_ID}")
    if partition is not None:
        return Finding(MALFORMED_ZNODE, detail, partition.topic, partition.partition)
    return Finding(MALFORMED_ZNODE, detail)
