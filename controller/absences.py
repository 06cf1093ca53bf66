"""Since when brokers have been away, as far as the active controller knows.

Kept by the changes of the context, in times of the event loop. A new active controller counts anew from its beginning:
nothing in ZooKeeper says when a broker was there last.
"""

from collections.abc import Iterable

from cluster.model.broker import BrokerId
from controller import changes


class Absences:
    """`began_at`: when this controller began."""

    def __init__(self, began_at: float) -> None:
        self._began_at = began_at
        self._since: dict[BrokerId, float] = {}
        self.next_check_at: float | None = None
        """When the next of them is checked; None if nothing waits for any."""

    def follow(self, change: changes.Change, now: float) -> None:
        """Take over a change that was applied to the context."""
        match change:
            case changes.BrokersDied(brokers):
                self._since.update(dict.fromkeys(brokers, now))
            case changes.BrokersJoined(registered):
                for member in registered:
                    self._since.pop(member.broker.id, None)
            case _:
                pass

    def ends(self, brokers: Iterable[BrokerId], grace_s: float) -> dict[BrokerId, float]:
        """When each of these brokers, which are away, will have been so for `grace_s`."""
        return {broker: self._since.get(broker, self._began_at) + grace_s for broker in brokers}

    def copy(self) -> "Absences":
        copy = Absences(self._began_at)
        copy._since = dict(self._since)
        return copy
