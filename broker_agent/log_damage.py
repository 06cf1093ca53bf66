"""What was found missing in a log, when it was opened or by the scrub: the agent records and reports it."""

from typing import Final

from msgspec import Struct

from cluster.model.broker import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from cluster.requests.agents import RECOVERY, UNCLEAN_SHUTDOWN

MACHINE_RESTARTED: Final = "the machine was restarted without a clean shutdown"


class LogDamage(Struct, frozen=True):
    """Offsets from `from_offset` up to, not including, `to_offset` were in the log and are not, or not all, any more.

    `size`: bytes that were cut off; what was gone before is not counted. `is_cut`: whether the log ends where the
    damage began; otherwise it is in the middle and stays. `is_end_known`: whether the log is known to have ended at
    `to_offset`, or to continue there; otherwise later records may be missing, too.
    """

    from_offset: Offset
    to_offset: Offset
    size: int
    reason: str
    is_cut: bool = True
    is_end_known: bool = True

    @property
    def offsets(self) -> str:
        """The offsets for people, for example `offsets 20..29`, or `at least offsets 20..29`."""
        return f"{'' if self.is_end_known else 'at least '}offsets {self.from_offset}..{self.to_offset - 1}"


class DamagedReplica(Struct, frozen=True):
    """The damage of one replica of this broker. `found_by`: RECOVERY when its directory was opened, SCRUB, or
    UNCLEAN_SHUTDOWN for a replica that is in doubt.

    `has_led`: since then; what was cut off its end is lost, because the others follow it. `left_isr_in`: the leader
    epoch in which it follows outside of the ISR, -1 without one; once it is in the ISR again it has everything.
    """

    topic_partition: TopicPartition
    topic_id: TopicId | None
    directory: str
    damage: LogDamage
    found_by: str = RECOVERY
    has_led: bool = False
    left_isr_in: LeaderEpoch = NO_LEADER_EPOCH

    @property
    def is_in_doubt(self) -> bool:
        """Whether nothing is known to be damaged, but records may be gone from its end: until the controller knows."""
        return self.found_by == UNCLEAN_SHUTDOWN

    @property
    def is_lost(self) -> bool:
        """Whether no other replica can have the records any more."""
        return self.damage.is_cut and self.has_led

    @property
    def is_unanswered(self) -> bool:
        """Whether the controller may not know of it: the replica has neither been replaced nor led."""
        return not self.has_led and self.left_isr_in == NO_LEADER_EPOCH

    @property
    def detail(self) -> str:
        """The damage in one sentence for people, without the partition."""
        lost = self.damage
        cut = f" ({lost.size} bytes cut off at its end)" if lost.is_cut else ""
        return f"{lost.offsets} are damaged in {self.directory}{cut}: {lost.reason}"

    def remedy(self, broker: BrokerId) -> str:
        """The text that says what happens next, or what an operator can do."""
        tp = self.topic_partition
        if self.is_lost:
            return (
                "the broker has led without them, so that they are lost; once that is dealt with: "
                f"klamm brokers acknowledge-damage {broker} {tp}"
            )
        if self.damage.is_cut:
            return "they are fetched again from the leader"
        return (
            "all records are fetched again from another replica in sync; if there is none, restore one, or delete the "
            f"damaged ones: klamm topics delete-records {tp} --before-offset {self.damage.to_offset}"
        )


def in_doubt(
    tp: TopicPartition, topic_id: TopicId | None, directory: str, end: Offset, why: str = MACHINE_RESTARTED
) -> DamagedReplica:
    """The doubt about a replica that ends at `end`: it may have had further records. `why`: what was not flushed may be
    gone.
    """
    reason = f"{why}: what was not flushed may be gone"
    damage = LogDamage(end, end, 0, reason, is_end_known=False)
    return DamagedReplica(tp, topic_id, directory, damage, UNCLEAN_SHUTDOWN)
