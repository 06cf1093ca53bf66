"""Children of a znode that may not exist, with a watch in either case."""

from cluster.zookeeper.port import ZooKeeper


async def watched_children(zookeeper: ZooKeeper, path: str) -> tuple[str, ...] | None:
    """Names of the children, with a watch on the list; None for a missing znode, with a watch for its creation."""
    while True:
        names = await zookeeper.children(path, watch=True)
        if names is not None or await zookeeper.exists(path, watch=True) is None:
            return names
