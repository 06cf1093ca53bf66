"""What a client must remember of its watches, so that none is lost when its connection breaks."""

from collections.abc import Iterator, Sequence
from typing import Final

from cluster.zookeeper.kazoo_requests import ErrorAnswer, Exists, GetChildren, Request, SetWatches
from cluster.zookeeper.port import WatchKind

# SetWatches is split below this, so that a server with the smallest usual limit (1 MiB) takes it.
MAX_REQUEST_BYTES: Final = 512 * 1024


class Watches:
    """Paths (with the chroot) on which this session has a watch on the server, by the list SetWatches wants."""

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.exists: set[str] = set()
        self.children: set[str] = set()
        # Fired while the SetWatches that is to leave them was not answered yet: those are spent already.
        self._early: set[str] = set()

    def answered(self, request: Request, outcome: object) -> None:
        """Take note of the watches which an answered request left behind."""
        if isinstance(request, SetWatches):
            self.data.update(path for path in request.data if path not in self._early)
            self.exists.update(path for path in request.exists if path not in self._early)
            self._early.clear()
        elif isinstance(request, Exists):
            (self.exists if isinstance(outcome, ErrorAnswer) else self.data).update(request.watched)
        elif isinstance(request, GetChildren) and not isinstance(outcome, ErrorAnswer):
            self.children.update(request.watched)

    def fired(self, path: str, kind: WatchKind) -> bool:
        """Forget the spent watches. False for a deletion that nobody can have been waiting for.

        Arming a data watch on an absent node makes the server report a deletion; it is no news, because the read
        that follows the arming shows the absence.
        """
        if kind is WatchKind.CHILDREN:
            self.children.discard(path)
            return True
        if kind is WatchKind.DELETED and path not in self.data and path not in self.children:
            self._early.add(path)
            return False
        if path not in self.data and path not in self.exists:
            self._early.add(path)
        self.data.discard(path)
        self.exists.discard(path)
        if kind is WatchKind.DELETED:
            self.children.discard(path)
        return True

    def requests(self, since_zxid: int) -> Iterator[SetWatches]:
        """Requests that leave all of them again on a new connection, and tell what happened since."""
        # They belong to a request whose answer was lost with the old connection; it will be sent again.
        self._early.clear()
        for field, paths in (("data", self.data), ("exists", self.exists), ("children", self.children)):
            for chunk in chunks_by_size(sorted(paths)):
                yield SetWatches(since_zxid, **{field: chunk})


def chunks_by_size(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut where the encoded paths would exceed a request."""
    start = size = 0
    for index, path in enumerate(paths):
        # The length in front of a path takes four bytes; a character outside ASCII takes up to four.
        path_size = 4 + len(path) * (1 if path.isascii() else 4)
        size += path_size
        if size > MAX_REQUEST_BYTES and index > start:
            yield paths[start:index]
            start, size = index, path_size
    if start < len(paths):
        yield paths[start:]
