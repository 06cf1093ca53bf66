"""The states of the controller's event loop, and the timer metric of each.

Source: Kafka ControllerState.
"""

from enum import IntEnum
from typing import Final


class ControllerState(IntEnum):
    """Names what the event loop is processing; the numbers are the values of the ControllerState gauge."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


_UNTIMED: Final = (ControllerState.IDLE, ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED)
TIMER_OF_STATE: Final[dict[ControllerState, str]] = {
    **{s: f"{s.name.title().replace('_', '')}RateAndTimeMs" for s in ControllerState if s not in _UNTIMED},
    # These two keep their historical names.
    ControllerState.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignmentRateAndTimeMs",
}
