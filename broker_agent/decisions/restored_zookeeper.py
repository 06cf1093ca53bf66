"""Whether ZooKeeper was restored from a backup while this agent ran; if so, no controller is obeyed before a recovery.

A registration has a zxid above all that this agent saw before, unless ZooKeeper lost its last transactions. Then its
controllers decide from an earlier state, under epochs that were used before: what they decide may be valid by every
epoch and lose records all the same.
"""

from collections.abc import Iterator
from typing import NamedTuple

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch
from cluster.requests.cluster import Finding

REFUSES_CONTROLLER = "refuses_controller"


class _Evidence(NamedTuple):
    """The broker was registered at `zxid`, after it had seen `seen`."""

    zxid: int
    seen: int


class RestoredZooKeeper:
    """Remembers the evidence until the first controller after a recovery (R1.19)."""

    def __init__(self, own_id: BrokerId) -> None:
        self._own_id = own_id
        self._evidence: _Evidence | None = None
        self._recovered_from: ControllerEpoch | None = None

    @property
    def is_suspected(self) -> bool:
        return self._evidence is not None

    def registered(self, broker_epoch: BrokerEpoch, seen: int) -> None:
        """The agent was registered under this epoch, which is a zxid; `seen`: the highest zxid seen before."""
        if broker_epoch <= seen:
            self._evidence, self._recovered_from = _Evidence(broker_epoch, seen), None

    def recovers(self, epoch: ControllerEpoch) -> None:
        """A recovery is carried out which knows that controller epochs up to this one were used."""
        self._recovered_from = epoch

    def refuses(self, epoch: ControllerEpoch) -> bool:
        """Whether a controller of this epoch is refused. The first one above a recovery ends the suspicion."""
        if self._evidence is None:
            return False
        if self._recovered_from is None or epoch <= self._recovered_from:
            return True
        self._evidence = self._recovered_from = None
        return False

    def findings(self) -> Iterator[Finding]:
        if self._evidence is not None:
            zxid, seen = self._evidence
            detail = (
                f"broker {self._own_id} refuses the controller's requests: ZooKeeper was restored from a backup "
                f"(it is at zxid 0x{zxid:x}, 0x{seen:x} was seen before) and has not been recovered"
            )
            yield Finding(REFUSES_CONTROLLER, detail, broker=self._own_id)
