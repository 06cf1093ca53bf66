"""Which controller epoch an election takes, whatever `/controller_epoch` says, so that none is used twice.

The znode alone does not say which epochs were used: somebody may have deleted it, written nonsense to it or set it
back. So the next epoch is above all that this process has read or won, above those in the partition states, and above
those that brokers name, or are found to know, when they refuse requests as an earlier controller's.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.bounds import INT32_MAX
from cluster.model.broker import INITIAL_CONTROLLER_EPOCH, UNKNOWN_CONTROLLER_EPOCH, ControllerEpoch
from controller.decisions.recovery.limits import EPOCH_MAX

LAST: Final = INT32_MAX - 1
"""Kafka's brokers cannot elect a controller after it."""
DOUBTED_ABOVE: Final = 3 << 29
"""No elections lead there, and brokers are not believed above `EPOCH_MAX`; so somebody wrote it."""
MARGINS: Final = range(16, 1024)
"""Of an epoch that does not follow from the znode: others may have been elected since this process read it last."""
_STEP_BITS: Final = 4
"""Each refusal in a row that names no epoch raises the next one 16 times as far as the last; 7 reach `EPOCH_MAX`."""
_ROOM: Final = 1 << 20
"""For further elections."""
_VERSIONS_MAX: Final = 4096


class KnownEpochs(Struct, frozen=True):
    """Holds what one process knows of the epochs that were used.

    `highest`: that was, or may have been. `doubted`: the highest read that no elections lead to. `refusals`: in a row,
    of brokers that name no epoch. `version`: the highest of `/controller_epoch` read.
    """

    highest: ControllerEpoch = INITIAL_CONTROLLER_EPOCH
    doubted: ControllerEpoch = UNKNOWN_CONTROLLER_EPOCH
    refusals: int = 0
    version: int = -1

    def believes(self, epoch: int) -> bool:
        return epoch <= max(DOUBTED_ABOVE, self.highest + _ROOM)

    def read(self, stored: ControllerEpoch | None, version: int) -> "KnownEpochs":
        """Add what was read. `stored`: in `/controller_epoch`; None if that names none."""
        seen = replace(self, version=max(self.version, version))
        if stored is None:
            return seen
        if not self.believes(stored):
            return replace(seen, doubted=max(self.doubted, stored))
        return replace(seen, highest=max(self.highest, stored))

    def used(self, epoch: ControllerEpoch) -> "KnownEpochs":
        """Won by this process, or found in a partition state."""
        return replace(self, highest=max(self.highest, epoch))

    def missing_versions(self, stored: ControllerEpoch | None, version: int) -> int:
        """Compute by how much to raise the version of `/controller_epoch` before it is won, by writing its content.

        If the znode was deleted, its versions begin again, and a controller that has not noticed yet could still write
        under one that it won with. There are no more versions than elections, but for what is written by hand.
        """
        is_set_back = stored is None or stored < self.highest
        least = max(self.version, min(self.highest, _VERSIONS_MAX) if is_set_back else 0)
        return 0 if version >= least else least + MARGINS.start - version


def epoch_in(data: bytes) -> ControllerEpoch | None:
    """The epoch in `/controller_epoch`, whether one can follow or not; None if it names none."""
    number = int(data) if data.isdigit() and len(data) <= len(str(INT32_MAX)) else INT32_MAX + 1
    return ControllerEpoch(number) if number <= INT32_MAX else None


def next_epoch(stored: ControllerEpoch | None, known: KnownEpochs, margin: int) -> ControllerEpoch | None:
    """The epoch to be elected with; None if there is no more. `stored`: in `/controller_epoch`, None if it names none.

    `known` includes what was read. `margin`: drawn from `MARGINS` by each candidate, so that two of them do not take
    the same one when somebody writes the znode between their elections.
    """
    follows = stored == known.highest
    is_first = known.highest == INITIAL_CONTROLLER_EPOCH
    wanted = known.highest + (1 if follows or is_first else margin)
    return ControllerEpoch(wanted) if wanted <= LAST else None


def outranking(own: ControllerEpoch, in_states: Iterable[ControllerEpoch]) -> ControllerEpoch | None:
    """The highest epoch in the states, if another controller wrote it under `own`, which has not written yet, or above.

    None if none did. What no elections lead to is passed over: one such state must not keep everyone from acting.
    """
    limit = max(DOUBTED_ABOVE, own)
    highest = max((epoch for epoch in in_states if epoch <= limit), default=UNKNOWN_CONTROLLER_EPOCH)
    return highest if highest >= own else None


def after_refusal(known: KnownEpochs, own: ControllerEpoch, named: ControllerEpoch) -> KnownEpochs | None:
    """Compute what is known once a broker refused requests under `own` as an earlier controller's; None if no higher
    epoch would help.

    `named`: the epoch that it says it knows, -1 for none. Kafka's brokers name none, so the next epoch is found by
    growing steps. One that names no higher epoch refuses for another reason, which it reports itself.
    """
    if named != UNKNOWN_CONTROLLER_EPOCH:
        return known.used(named) if own < named <= EPOCH_MAX else None
    refused = replace(known.used(own), refusals=known.refusals + 1)
    if own < refused.doubted < LAST - _ROOM:
        # Somebody was elected there after all.
        return replace(refused, highest=refused.doubted, doubted=UNKNOWN_CONTROLLER_EPOCH)
    if own >= EPOCH_MAX:
        return None
    reached = min(refused.highest + (1 << _STEP_BITS * refused.refusals), EPOCH_MAX)
    return refused.used(ControllerEpoch(reached - 1))
