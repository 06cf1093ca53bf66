"""Creating znodes that may exist, and listing the children of one that may not."""

from cluster.model.errors import OutcomeUnknownError
from cluster.zookeeper.port import Create, OpResult, ZkError, ZooKeeper, refusal


async def create_where_missing(zookeeper: ZooKeeper, path: str, data: bytes = b"") -> None:
    """Create until the outcome is known; an earlier attempt that was applied returns NODE_EXISTS.

    Raises ZooKeeperError if the creation is refused.
    """
    while True:
        try:
            (result,) = await zookeeper.multi([Create(path, data)])
        except OutcomeUnknownError:
            continue
        return check_present(path, result)


def check_present(path: str, creation: OpResult) -> None:
    """Raise ZooKeeperError if the znode does not exist after this attempt to create it."""
    if creation.error not in {ZkError.OK, ZkError.NODE_EXISTS}:
        raise refusal(f"{path} cannot be created", creation.error)


async def watched_children(zookeeper: ZooKeeper, path: str) -> tuple[str, ...] | None:
    """Names of the children, with a watch on the list; None for a missing znode, with a watch for its creation."""
    while True:
        names = await zookeeper.children(path, watch=True)
        if names is not None or await zookeeper.exists(path, watch=True) is None:
            return names
