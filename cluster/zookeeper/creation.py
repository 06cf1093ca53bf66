"""Persistent nodes that several processes may be creating at once, and that must be there afterwards."""

from cluster.errors import OutcomeUnknownError
from cluster.zookeeper.port import Create, OpResult, ZkError, ZooKeeper, refusal


async def create_where_missing(zookeeper: ZooKeeper, path: str, data: bytes = b"") -> None:
    """Create until the outcome is known; an attempt that went through unseen shows as NODE_EXISTS.

    Raises ZooKeeperError when the node is refused.
    """
    while True:
        try:
            (result,) = await zookeeper.multi([Create(path, data)])
        except OutcomeUnknownError:
            continue
        return check_present(path, result)


def check_present(path: str, creation: OpResult) -> None:
    """Raises ZooKeeperError when the node is not there after this attempt to create it."""
    if creation.error not in {ZkError.OK, ZkError.NODE_EXISTS}:
        raise refusal(f"{path} cannot be created", creation.error)
