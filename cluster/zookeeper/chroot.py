"""Translates the paths of a client with a chroot: its `/x` is `<chroot>/x` on the server."""

from collections.abc import Sequence

from cluster.zookeeper.port import OpResult


class Chroot:
    """Translates paths. `path` starts with a slash and does not end with one; empty: no chroot."""

    def __init__(self, path: str) -> None:
        names = path.strip("/")
        self.path = f"/{names}" if names else ""

    @property
    def lineage(self) -> list[str]:
        """The znodes that must exist, top down; the last one is the chroot itself."""
        names = self.path.split("/")[1:]
        return ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]

    def absolute(self, path: str) -> str:
        return path if not self.path else self.path if path == "/" else self.path + path

    def relative(self, path: str) -> str:
        return path[len(self.path) :] or "/"

    def relative_results(self, results: Sequence[OpResult]) -> list[OpResult]:
        """Convert the results of a transaction to paths relative to the chroot."""
        return [
            result if result.path is None else OpResult(result.error, self.relative(result.path), result.stat)
            for result in results
        ]
