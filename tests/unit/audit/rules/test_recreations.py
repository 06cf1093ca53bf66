"""Partitions without ids that were created again, record by record."""

import pytest
from msgspec.structs import replace

from audit.rules.recreations import CREATED_ANEW
from cluster.model.broker import LeaderEpoch, PartitionEpoch
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit


def record(seq: int, **fields: object) -> LoggedStateChange:
    given = {"kind": Kind.PARTITION, "controller_epoch": 1, "topic": "t", "partition": 0, **fields}
    return LoggedStateChange(
        v=2,
        seq=seq,
        node="controller-1",
        incarnation="1.1",
        at_ms=seq,
        **given,  # type: ignore[arg-type]
    )


WRITTEN = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "isr": (1,), "replicas": (1, 2)}
AGAIN = {**WRITTEN, "leader": 2, "isr": (2,)}
ABSENT, NEW, OFFLINE, ONLINE = "NonExistentPartition", "NewPartition", "OfflinePartition", "OnlinePartition"
CONTINUES = "partition-transition-continues"


@pytest.mark.parametrize("topic_id", [None, "id"])
def test_findings_that_a_later_batch_explains_are_withdrawn_and_it_is_said(topic_id: str | None) -> None:
    """With an id, a deletion and a creation under the same id explain nothing."""
    audit = ColumnarAudit()
    first = record(0, from_state=NEW, to_state=ONLINE, topic_id=topic_id, **WRITTEN)
    second = record(4, from_state=NEW, to_state=ONLINE, topic_id=topic_id, **AGAIN)
    audit.check([first, second])
    between = {"one-state-per-partition-epoch", "one-leader-per-epoch"}
    assert {rule for rule, _ in audit.findings} == {*between, CONTINUES}
    audit.check([record(1, from_state=ONLINE, to_state=OFFLINE, topic_id=topic_id)])
    audit.check([record(2, from_state=OFFLINE, to_state=ABSENT, topic_id=topic_id)])
    audit.check([record(3, from_state=ABSENT, to_state=NEW, topic_id=topic_id)])
    assert {rule for rule, _ in audit.findings} == ({CREATED_ANEW} if topic_id is None else between)


@pytest.mark.parametrize(
    ("epochs", "is_found"),
    [
        ([(0, 0), (3, 4), (0, 0)], True),
        ([(0, 0), (3, 4), (4, 5)], False),
        ([(3, None), (0, None)], True),
        ([(0, 3), (0, 0)], True),
        ([(0, 0), (0, 0)], False),
    ],
)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_broker_of_kafka_that_returns_to_the_first_epochs_shows_another_topic(
    epochs: list[tuple[int, int | None]], is_found: bool, one_by_one: bool
) -> None:
    roles = [
        replace(
            record(seq, kind=Kind.ROLE, to_state="cached", leader=1, isr=(1,), controller_epoch=None),
            node="kafka-broker-1",
            leader_epoch=LeaderEpoch(leader_epoch),
            partition_epoch=None if partition_epoch is None else PartitionEpoch(partition_epoch),
        )
        for seq, (leader_epoch, partition_epoch) in enumerate(epochs)
    ]
    audit = ColumnarAudit()
    for batch in [[role] for role in roles] if one_by_one else [roles]:
        audit.check(batch)
    assert (CREATED_ANEW in {rule for rule, _ in audit.findings}) == is_found


def test_a_second_creation_in_a_log_of_kafka_follows_a_deletion_that_it_does_not_show() -> None:
    created = [record(seq, from_state=ABSENT, to_state=NEW, replicas=(1,)) for seq in (0, 4)]
    audit = ColumnarAudit()
    audit.check([replace(each, node="kafka-controller-1") for each in created])
    # A report drops the second: it asks for logs that lack no transition.
    assert {rule for rule, _ in audit.findings} == {CREATED_ANEW, CONTINUES}
