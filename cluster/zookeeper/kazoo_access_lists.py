"""Reads and replaces the ACLs of znodes on a real server: many at once, each with its own result."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.zookeeper.acl import Access, AccessList
from cluster.zookeeper.kazoo_client import KazooZooKeeper, answer_of
from cluster.zookeeper.kazoo_requests import ErrorAnswer, GetAcl, LostAnswer, Request, SetAcl
from cluster.zookeeper.port import ZkError

_VALUES: Final = frozenset({int(error) for error in ZkError})


class KazooAccessLists(KazooZooKeeper):
    """A client that also knows ACLs, for tools."""

    @property
    def has_chroot(self) -> bool:
        """Whether its root is a znode of its own."""
        return bool(self._chroot.path)

    async def access_lists(self, paths: Sequence[str]) -> list[AccessList | ZkError]:
        """Read the ACL of each znode, or why it cannot be read: NO_NODE, NO_AUTH. Raises ZooKeeperError."""
        requests = [GetAcl(self._chroot.absolute(path)) for path in paths]
        await self._exchange(requests)
        return [self._result(request) for request in requests]

    async def set_access(self, changes: Mapping[str, tuple[Access, int]]) -> list[ZkError]:
        """Replace the ACL of each znode, path -> ACL and the version that it must still have; the results are in the
        same order. A lost answer is BAD_VERSION: read it again. Raises ZooKeeperError.
        """
        requests = [SetAcl(self._chroot.absolute(path), *change) for path, change in changes.items()]
        await self._exchange(requests, is_write=True)
        found = [self._result(request) for request in requests]
        return [result if isinstance(result, ZkError) else ZkError.OK for result in found]

    def _result(self, request: Request) -> Any:
        match request.outcome:
            case ErrorAnswer(code=code) if code in _VALUES:
                return ZkError(code)
            case LostAnswer():
                return ZkError.BAD_VERSION
        return answer_of(request)
