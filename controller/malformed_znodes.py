"""The malformed znodes that the active controller found, for `cluster health`.

They are skipped; each is read again when it changes. What is here is what was last read, not state of the cluster, so
it is no part of the context.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from cluster.model.errors import MalformedZnodeError
from cluster.zookeeper.decoding import decode_each, report_malformed
from cluster.zookeeper.port import Znode

_Key = TypeVar("_Key")
_T = TypeVar("_T")


class MalformedZnodes:
    """Path -> why, for every znode that was malformed when last read."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}

    def __contains__(self, path: object) -> bool:
        return path in self._why

    def __len__(self) -> int:
        return len(self._why)

    def items(self) -> Iterator[tuple[str, str]]:
        return iter(sorted(self._why.items()))

    def below(self, parent: str) -> list[str]:
        """The names of the malformed children of a znode, sorted."""
        names = (path.removeprefix(f"{parent}/") for path in self._why if path.startswith(f"{parent}/"))
        return sorted(name for name in names if "/" not in name)

    def decode_each(
        self,
        keys: Sequence[_Key],
        paths: Sequence[str],
        znodes: Sequence[Znode | None],
        decode: Callable[[_Key, Znode], _T],
    ) -> dict[_Key, _T]:
        """Decode the znode of each key; missing and malformed ones are omitted, the latter kept here."""
        errors: list[MalformedZnodeError] = []
        found = decode_each(keys, znodes, decode, report=errors.append)
        for error in errors:
            report_malformed(error)
        self.examined(paths, errors)
        return found

    def examined(self, paths: Collection[str], errors: Collection[MalformedZnodeError]) -> None:
        """These znodes were read, with these errors; the others of them are sound or missing."""
        if self._why:
            for path in paths:
                self._why.pop(path, None)
        self._why |= {error.path: error.why for error in errors}

    def name_children(self, parent: str, names: Collection[str], sound: Collection[str], why: str) -> None:
        """A list of children was read, of which those not in `sound` cannot be what they are listed as.

        Findings about znodes that are not listed any more are removed, with those below them.
        """
        listed = {f"{parent}/{name}" for name in names}
        depth = parent.count("/") + 1
        for path in [path for path in self._why if path.startswith(f"{parent}/")]:
            if "/".join(path.split("/")[: depth + 1]) not in listed:
                del self._why[path]
        unsound = listed - {f"{parent}/{name}" for name in sound}
        for path in sorted(unsound - self._why.keys()):
            report_malformed(MalformedZnodeError(path, b"", why))
        self._why |= dict.fromkeys(unsound, why)
