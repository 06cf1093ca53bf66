"""All invariants over the records of a whole run, with the histories in memory."""

from collections.abc import Iterable

from cluster.model.partition import TopicPartition
from state_log.histories import PartitionHistory
from state_log.invariants import ControllerEpochs, Finding, check_controller_epoch, check_partition
from state_log.record import LoggedStateChange, by_partition


class Checker:
    """All rules over one stream of records, with histories in memory."""

    def __init__(self) -> None:
        self._histories: dict[TopicPartition, PartitionHistory] = {}
        self._epochs = ControllerEpochs()

    def check(self, record: LoggedStateChange) -> list[Finding]:
        found = check_controller_epoch(self._epochs, record)
        for tp, part in by_partition(record):
            found += check_partition(self._histories.setdefault(tp, PartitionHistory()), part)
        return found


def check_all(records: Iterable[LoggedStateChange]) -> list[Finding]:
    """All violations in these records, in the order of detection."""
    checker = Checker()
    return [finding for record in records for finding in checker.check(record)]
