"""Versions of what an audit keeps, and how this klamm continues from the commit of an older one.

To change what commits or state have in them: raise VERSION, and add to `_UPGRADES` what becomes of a commit of the
version before. If the state of partitions is not the same as before, the upgrade sets `must_rebuild`, and `klamm audit
rebuild` makes that state again from the table of records. The state of what concerns no partition is in no table: an
upgrade keeps it, or changes it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.model.errors import ClusterError

VERSION: Final = 4
"""The version of commits, state and tables."""
RULES_VERSION: Final = 9
"""The version of the rules about partitions: raised when they find something else in the same records."""

Document = Mapping[str, Any]
"""A commit as it is in JSON."""


class VersionError(ClusterError):
    """The version is one that this klamm cannot read. The message continues the name of the file."""


def _to_3(commit: Document) -> Document:
    """Give commits a number of buckets, which was fixed before, one of rebuilds, and the versions of the rules."""
    return {**commit, "bucket_count": 16, "rebuilds": 0, "rules": [1]}


def _to_4(commit: Document) -> Document:
    """Give commits what is sealed of the state: nothing before."""
    return commit


_UPGRADES: Final[Mapping[int, Callable[[Document], Document]]] = {2: _to_3, 3: _to_4}
"""Keyed by the version before: each makes a commit one of the next version."""


def upgraded(commit: Document) -> Document:
    """The commit as one of this version. Raises VersionError."""
    version = commit.get("version")
    if not isinstance(version, int):
        raise VersionError("says no version: restore the folder from a copy, or audit into a new --output")
    if version > VERSION:
        raise VersionError(
            f"is of version {version}, which a newer klamm wrote; this one knows versions up to {VERSION}: use the "
            "newer klamm, or audit into a new --output"
        )
    steps = range(version, VERSION)
    if any(step not in _UPGRADES for step in steps):
        raise VersionError(
            f"is of version {version}, which this klamm cannot upgrade to {VERSION}: audit into a new --output"
        )
    for step in steps:
        commit = {**_UPGRADES[step](commit), "version": step + 1}
    return commit
