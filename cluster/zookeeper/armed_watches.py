"""Tracks the armed watches of a session, so that they can be restored after a reconnection."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cluster.zookeeper.kazoo_requests import (
    AddWatch,
    ErrorAnswer,
    Exists,
    GetChildren,
    RemoveWatches,
    Request,
    SetWatches,
    SetWatches2,
)
from cluster.zookeeper.port import WatchKind
from cluster.zookeeper.znode_tree import is_at_or_below

# SetWatches requests are split at this size, so that a server with the smallest usual limit (1 MiB) accepts them.
MAX_REQUEST_BYTES: Final = 512 * 1024


class Watches:
    """Holds the paths (with the chroot) that have a watch on the server, by the lists of SetWatches and SetWatches2."""

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.exists: set[str] = set()
        self.children: set[str] = set()
        self.subtrees: set[str] = set()
        # Watches that fired before the response to the SetWatches that restores them: these are used up already.
        self._early: set[str] = set()

    def answered(self, request: Request, outcome: object) -> None:
        """Record the watches armed by an answered request."""
        if isinstance(request, SetWatches):
            self.data.update(path for path in request.data if path not in self._early)
            self.exists.update(path for path in request.exists if path not in self._early)
            self._early.clear()
        elif isinstance(request, Exists):
            (self.exists if isinstance(outcome, ErrorAnswer) else self.data).update(request.watched)
        elif isinstance(request, GetChildren) and not isinstance(outcome, ErrorAnswer):
            self.children.update(request.watched)
        elif isinstance(request, AddWatch) and not isinstance(outcome, ErrorAnswer):
            self.subtrees.add(request.path)
        elif isinstance(request, RemoveWatches):
            self.subtrees.discard(request.path)

    def is_in_subtree(self, path: str) -> bool:
        """Whether a watched subtree has this znode."""
        return any(is_at_or_below(path, root) for root in self.subtrees)

    def fired(self, path: str, kind: WatchKind, is_being_armed: Callable[[str], bool]) -> bool:
        """Remove fired watches; returns False for an event that none of them, but the watch of a subtree has caused,
        and for a deletion that can be dropped.

        Arming a data watch on a missing znode makes the server report a deletion; the read after it shows that anyway.
        `is_being_armed`: whether a request that arms a watch on a path is without a response.
        """
        if kind is WatchKind.CHILDREN:
            self.children.discard(path)
            return True
        is_deletion = kind is WatchKind.DELETED
        # One event stands for both kinds of watch, so it may be that of the subtree alone.
        is_of_subtree_only = self.is_in_subtree(path) and not is_being_armed(path)
        if is_deletion and path not in self.data and path not in self.children:
            if not is_of_subtree_only:
                self._early.add(path)
            return False
        if path not in self.data and path not in self.exists and not (is_deletion and path in self.children):
            if is_of_subtree_only:
                return False
            if self.is_in_subtree(path):
                # What is being armed may not have fired; to take it for armed where it has costs a superfluous event.
                self._early.discard(path)
                return True
            self._early.add(path)
        self.data.discard(path)
        self.exists.discard(path)
        if is_deletion:
            self.children.discard(path)
        return True

    def requests(self, since_zxid: int) -> Iterator[SetWatches | SetWatches2]:
        """Make requests that restore all watches on a new connection, and report changes since `since_zxid`, except for
        those that only a subtree's watch would have reported.
        """
        # They belong to a request whose response was lost with the connection; it will be sent again.
        self._early.clear()
        for field, paths in (("data", self.data), ("exists", self.exists), ("children", self.children)):
            for chunk in chunks_by_size(sorted(paths)):
                yield SetWatches(since_zxid, **{field: chunk})
        if self.subtrees:
            yield SetWatches2(since_zxid, sorted(self.subtrees))


def chunks_by_size(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split paths so that each chunk fits a request."""
    start = size = 0
    for index, path in enumerate(paths):
        # The length prefix of a path takes four bytes; a non-ASCII character up to four.
        path_size = 4 + len(path) * (1 if path.isascii() else 4)
        size += path_size
        if size > MAX_REQUEST_BYTES and index > start:
            yield paths[start:index]
            start, size = index, path_size
    if start < len(paths):
        yield paths[start:]
