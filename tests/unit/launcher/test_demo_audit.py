"""The record that the demonstration injects is found by the audit."""

from pathlib import Path

import pytest

from cluster.aio.clock import SystemClock
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from launcher.demo.audit import inject_second_leader
from state_log.histories import ONE_LEADER_PER_EPOCH
from state_log.reader import read_state_changes
from state_log.record import Cause, Kind, StateChange
from state_log.writer import FileStateChangeLog
from tests.audits.columnar_audits import audit_batches


@pytest.mark.parametrize("topic_id", [None, TopicId("0-3u_b-iS4efmMwfguQ4cw")])
def test_the_injected_second_leader_is_found(tmp_path: Path, topic_id: TopicId | None) -> None:
    folder = tmp_path / "controller-1001"
    folder.mkdir()
    log = FileStateChangeLog(folder, node="controller-1001", incarnation="1700000000000.1", clock=SystemClock())
    log.append(
        [
            StateChange(
                kind=Kind.PARTITION,
                cause=Cause("BrokerChange", 7),
                controller_epoch=ControllerEpoch(1),
                topic="demo",
                topic_id=topic_id,
                partition=0,
                from_state="OnlinePartition",
                to_state="OnlinePartition",
                leader=BrokerId(2),
                leader_epoch=LeaderEpoch(epoch),
                partition_epoch=PartitionEpoch(epoch),
                isr=(BrokerId(2), BrokerId(3)),
            )
            for epoch in range(3)
        ]
    )
    log.close()
    assert audit_batches([list(read_state_changes([folder]))]) == {}
    assert "broker 3 beside 2 in epoch 2" in inject_second_leader([folder], "demo")
    found = audit_batches([list(read_state_changes([folder]))])
    assert ONE_LEADER_PER_EPOCH in {rule for rule, _ in found}
