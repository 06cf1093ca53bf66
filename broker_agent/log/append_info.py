"""What an append to a log has done."""

from typing import Final

from msgspec import Struct

from cluster.model.broker import NO_LEADER_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset


class AppendInfo(Struct, frozen=True):
    """The result of an append. `last_offset` is inclusive; both offsets are -1 if nothing was appended.

    `duplicate`: an idempotent producer sent this batch before; the offsets are those of the first append.
    """

    first_offset: Offset
    last_offset: Offset
    last_leader_epoch: LeaderEpoch
    log_append_time_ms: int = -1
    valid_bytes: int = 0
    record_count: int = 0
    duplicate: bool = False


NOTHING_APPENDED: Final = AppendInfo(UNKNOWN_OFFSET, UNKNOWN_OFFSET, NO_LEADER_EPOCH)
