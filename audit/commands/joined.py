"""What the launcher joins to the audit, which knows no ZooKeeper, no nodes and no controller: `context.obj`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from state_log.heads_file import GivenHead

if TYPE_CHECKING:
    from audit.batches.decisions import Replayer

ReadHeads = Callable[[str, str, Path | None], Sequence[GivenHead]]
"""(ZooKeeper, bootstrap addresses, how a client of these is secured; "": neither) -> the heads of a cluster."""


class Joined(NamedTuple):
    """`make_replayer` makes what replays the decisions of controllers."""

    read_heads: ReadHeads
    make_replayer: "Callable[[], Replayer]"
