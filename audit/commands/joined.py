"""What the launcher joins to the audit, which knows no ZooKeeper, no nodes and no controller: `context.obj`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from state_log.heads_file import GivenHead

if TYPE_CHECKING:
    from audit.batches.decisions import Replayer

ReadHeads = Callable[[str, str], Sequence[GivenHead]]
"""(ZooKeeper, bootstrap addresses; "": neither) -> the heads of a cluster."""


class Joined(NamedTuple):
    """`make_replayer` makes what replays the decisions of controllers."""

    read_heads: ReadHeads
    make_replayer: "Callable[[], Replayer]"
