"""Resolves an agent's cluster id and broker id with ZooKeeper, before any log is opened.

Source: Kafka KafkaServer.startup, BrokerMetadataCheckpoint, ZkClient; agent rules R1.1 to R1.4.
"""

import base64
from collections.abc import Sequence
from pathlib import PurePosixPath
from random import Random

from cluster.model.broker import BrokerId
from cluster.model.errors import OutcomeUnknownError, StartupError
from cluster.znodes.cluster_wide import decode_cluster_id, encode_cluster_id
from cluster.znodes.paths import BROKERS_SEQID, CLUSTER_ID, CONTROLLERS_IDS, PERSISTENT_PATHS, broker_of_name
from cluster.zookeeper.port import Create, SetData, ZooKeeper, refusal
from cluster.zookeeper.recipes import check_present, create_where_missing


async def create_persistent_paths(zookeeper: ZooKeeper) -> None:
    """Create the persistent znodes that are missing, parents first (R1.1). Raises ZooKeeperError."""
    paths = {CONTROLLERS_IDS, *PERSISTENT_PATHS}
    parents = {str(parent) for path in paths for parent in PurePosixPath(path).parents if str(parent) != "/"}
    ordered = sorted(paths | parents, key=lambda path: (path.count("/"), path))
    results = await zookeeper.multi_many([[Create(path)] for path in ordered])
    for path, result in zip(ordered, results, strict=True):
        if isinstance(result, OutcomeUnknownError):
            await create_where_missing(zookeeper, path)
        elif isinstance(result, Exception):
            raise result
        else:
            check_present(path, result[0])


async def agree_on_cluster_id(zookeeper: ZooKeeper, random: Random) -> str:
    """The id in `/cluster/id`; if missing, a new one is proposed, and the first proposal wins (R1.2)."""
    while (znode := await zookeeper.get(CLUSTER_ID)) is None:
        proposal = base64.urlsafe_b64encode(random.randbytes(16)).rstrip(b"=").decode()
        parent = str(PurePosixPath(CLUSTER_ID).parent)
        await create_where_missing(zookeeper, parent)
        await create_where_missing(zookeeper, CLUSTER_ID, encode_cluster_id(proposal))
    return decode_cluster_id(znode.data)


async def choose_broker_id(
    zookeeper: ZooKeeper, *, configured: int, stored: BrokerId | None, generation_enabled: bool, reserved_max: int
) -> BrokerId:
    """The configured id, else the stored one, else a generated one (R1.4). Raises StartupError."""
    if configured >= 0:
        if stored is not None and stored != configured:
            raise StartupError(
                f"broker id {configured} is configured, but the log directories belong to broker {stored}: "
                "correct the id or use other directories"
            )
        return BrokerId(configured)
    if stored is not None:
        return stored
    if not generation_enabled:
        raise StartupError("no broker id is configured or stored, and broker.id.generation.enable is false")
    return await _generate_broker_id(zookeeper, reserved_max)


async def _generate_broker_id(zookeeper: ZooKeeper, reserved_max: int) -> BrokerId:
    """Generate an id from the version of the sequence znode; ids of controllers are skipped."""
    taken = await _controller_ids(zookeeper)
    while True:
        try:
            result = (await zookeeper.multi([SetData(BROKERS_SEQID, b"")]))[0]
        except OutcomeUnknownError:
            continue
        if result.stat is None:
            raise refusal(f"{BROKERS_SEQID} cannot be written", result.error)
        if (candidate := result.stat.version + reserved_max) not in taken:
            return BrokerId(candidate)


async def _controller_ids(zookeeper: ZooKeeper) -> Sequence[int]:
    names = await zookeeper.children(CONTROLLERS_IDS) or ()
    return [broker for name in names if (broker := broker_of_name(name)) is not None]
