"""Each kind of change has its record, with the fields that the log had before there were kinds."""

from typing import get_args

import pytest

from broker_agent import replica_changes
from broker_agent.log_damage import DamagedReplica, LogDamage
from broker_agent.replica_changes import (
    DamageFound,
    IsrCommitted,
    LogTruncated,
    MoveOfReplica,
    RegistrationChanged,
    ReplicaBack,
    ReplicaChange,
    ReplicaMoveAbandoned,
    ReplicaMoved,
    ReplicaMoveStarted,
    ReplicaOffline,
    ReplicaRemoved,
    ReplicaStopped,
    RoleTaken,
    record_of,
)
from cluster.model.broker import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from cluster.model.partition import TopicPartition
from cluster.requests.agents import SCRUB
from cluster.requests.control import LeaderAndIsrPartitionState
from state_log.causes import ISR_GRANTED, ISR_WRITTEN
from state_log.record import Cause, Stamper

TP, TOPIC_ID, OWN_ID = TopicPartition("t", 3), TopicId("id"), BrokerId(1)
CAUSE = Cause("BrokerChange", 4)
ISR = (BrokerId(1), BrokerId(2))
STATE = LeaderAndIsrPartitionState(
    *(3, ControllerEpoch(5), OWN_ID, LeaderEpoch(7), ISR, PartitionEpoch(9)), replicas=(*ISR, BrokerId(3))
)
FOLLOWED = LeaderAndIsrPartitionState(3, ControllerEpoch(5), BrokerId(2), LeaderEpoch(7), ISR, PartitionEpoch(9), ISR)
DAMAGE = LogDamage(Offset(20), Offset(30), 100, "checksum")
OF_PARTITION = '"topic":"t","topic_id":"id","partition":3,"broker":1'
GRANTED = (
    '"to_state":"leader","leader":1,"leader_epoch":7,"partition_epoch":10,"isr":[1,2],"replicas":[1,2],'
    '"min_insync_replicas":2'
)
MOVE = MoveOfReplica(TP, TOPIC_ID, "/a", "/b")
LOG = Offset(10), Offset(12), 2

LINES: list[tuple[ReplicaChange, str | None]] = [
    (
        RoleTaken(TP, TOPIC_ID, STATE, CAUSE, *LOG, follows_anew=False),
        f'"kind":"role","cause":{{"event":"BrokerChange","id":4}},"controller_epoch":5,{OF_PARTITION},'
        '"to_state":"leader","leader":1,"leader_epoch":7,"partition_epoch":9,"isr":[1,2],"replicas":[1,2,3],'
        '"high_watermark":10,"log_end_offset":12,"min_insync_replicas":2',
    ),
    (
        RoleTaken(TP, TOPIC_ID, STATE, CAUSE, *LOG, follows_anew=False, silent_ms=6_203),
        f'"kind":"role","cause":{{"event":"BrokerChange","id":4}},"controller_epoch":5,{OF_PARTITION},'
        '"to_state":"leader","leader":1,"leader_epoch":7,"partition_epoch":9,"isr":[1,2],"replicas":[1,2,3],'
        '"high_watermark":10,"log_end_offset":12,"min_insync_replicas":2,"silent_ms":6203',
    ),
    (
        RoleTaken(TP, TOPIC_ID, FOLLOWED, CAUSE, *LOG, follows_anew=True),
        f'"kind":"role","cause":{{"event":"BrokerChange","id":4}},"controller_epoch":5,{OF_PARTITION},'
        '"to_state":"follower","leader":2,"leader_epoch":7,"partition_epoch":9,"isr":[1,2],"replicas":[1,2],'
        '"high_watermark":10,"log_end_offset":12',
    ),
    (
        IsrCommitted(
            *(TP, TOPIC_ID, LeaderEpoch(7), PartitionEpoch(10), ISR, ISR, 2),
            cause=Cause(ISR_GRANTED, 21, ControllerId(1001), ControllerEpoch(5)),
            is_expansion=True,
        ),
        '"kind":"role","cause":{"event":"AlterPartition","id":21,"controller":1001,"controller_epoch":5},'
        f"{OF_PARTITION},{GRANTED}",
    ),
    (
        IsrCommitted(
            *(TP, TOPIC_ID, LeaderEpoch(7), PartitionEpoch(10), ISR, ISR, 2, Cause(ISR_GRANTED)),
            is_expansion=False,
        ),
        f'"kind":"role","cause":{{"event":"AlterPartition"}},{OF_PARTITION},{GRANTED}',
    ),
    (
        IsrCommitted(
            *(TP, TOPIC_ID, LeaderEpoch(7), PartitionEpoch(10), ISR, ISR, 2, Cause(ISR_WRITTEN)),
            is_expansion=False,
        ),
        f'"kind":"role","cause":{{"event":"IsrWritten"}},{OF_PARTITION},{GRANTED}',
    ),
    (ReplicaRemoved(TP), None),
    (
        ReplicaMoveStarted(MOVE),
        f'"kind":"directory_move","cause":{{"event":"AlterReplicaLogDirs"}},{OF_PARTITION},'
        '"to_state":"started","reason":"from /a to /b"',
    ),
    (
        ReplicaMoveAbandoned(MOVE, CAUSE),
        f'"kind":"directory_move","cause":{{"event":"BrokerChange","id":4}},{OF_PARTITION},'
        '"to_state":"abandoned","reason":"from /a to /b"',
    ),
    (
        ReplicaMoved(MOVE),
        f'"kind":"directory_move","cause":{{"event":"AlterReplicaLogDirs"}},{OF_PARTITION},'
        '"to_state":"completed","reason":"from /a to /b"',
    ),
    (
        ReplicaStopped(TP, LeaderEpoch(7), CAUSE, is_deleted=True),
        '"kind":"role","cause":{"event":"BrokerChange","id":4},"topic":"t","partition":3,"broker":1,'
        '"to_state":"deleted","leader_epoch":7',
    ),
    (
        ReplicaStopped(TP, LeaderEpoch(7), CAUSE, is_deleted=False, failure=OSError("no space")),
        '"kind":"role","cause":{"event":"BrokerChange","id":4},"topic":"t","partition":3,"broker":1,'
        '"to_state":"stopped","leader_epoch":7,"reason":"no space"',
    ),
    (
        ReplicaOffline(TP, "/data: input/output error"),
        '"kind":"role","cause":{"event":"LogDirectoryFailure"},"topic":"t","partition":3,"broker":1,'
        '"to_state":"offline","reason":"/data: input/output error"',
    ),
    (
        ReplicaOffline(TP, "/data: input/output error", TOPIC_ID),
        f'"kind":"role","cause":{{"event":"LogDirectoryFailure"}},{OF_PARTITION},'
        '"to_state":"offline","reason":"/data: input/output error"',
    ),
    (ReplicaOffline(TP), None),
    (ReplicaBack(TP), None),
    (
        LogTruncated(
            *(TP, TOPIC_ID, BrokerId(2), LeaderEpoch(7), CAUSE, Offset(12), Offset(11), Offset(10)), reason="why"
        ),
        f'"kind":"truncation","cause":{{"event":"BrokerChange","id":4}},{OF_PARTITION},"leader":2,"leader_epoch":7,'
        '"reason":"why","from_offset":12,"to_offset":11,"high_watermark":10',
    ),
    (
        DamageFound(DamagedReplica(TP, TOPIC_ID, "/data", DAMAGE)),
        f'"kind":"truncation","cause":{{"event":"LogRecovery"}},{OF_PARTITION},"reason":"offsets 20..29 are damaged in '
        '/data (100 bytes cut off at its end): checksum","from_offset":30,"to_offset":20',
    ),
    (
        DamageFound(DamagedReplica(TP, TOPIC_ID, "/data", DAMAGE, SCRUB)),
        f'"kind":"truncation","cause":{{"event":"LogScrub"}},{OF_PARTITION},"reason":"scrub","from_offset":30,'
        '"to_offset":20',
    ),
    (
        RegistrationChanged(BrokerEpoch(388), "registered", Cause("Startup")),
        '"kind":"registration","cause":{"event":"Startup"},"broker":1,"broker_epoch":388,"to_state":"registered",'
        '"reason":"broker epoch 388"',
    ),
]


@pytest.mark.parametrize(("change", "line"), LINES, ids=lambda value: type(value).__name__)
def test_each_change_has_its_record_or_none(change: ReplicaChange, line: str | None) -> None:
    record = record_of(change, OWN_ID)
    if record is None:
        assert line is None
    else:
        (stamped,) = Stamper("broker-1", "1", None).stamp([record], 0)
        assert stamped.decode().partition('"at_ms":0,')[2] == f"{line}}}"


def test_the_table_of_records_and_these_examples_have_every_kind_of_change() -> None:
    kinds = set(get_args(ReplicaChange))
    assert kinds == set(replica_changes._RECORDS)
    assert kinds == {type(change) for change, _ in LINES}
