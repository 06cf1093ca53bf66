"""What a leader writes to the state znode, what the results mean, and when changes are announced."""

import pytest
from msgspec.structs import replace

from broker_agent.decisions.isr_writes import (
    classify_write,
    compare_with_znode,
    is_propagation_due,
    leadership_to_write,
)
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from cluster.zookeeper.port import OpResult, Stat, ZkError

ONE, TWO = BrokerId(1), BrokerId(2)
ITEM = AlterPartitionItem("t", TopicId("id"), 3, LeaderEpoch(7), (ONE, TWO), PartitionEpoch(9))
WRITTEN = LeaderAndIsr(ONE, LeaderEpoch(7), (ONE, TWO), ControllerEpoch(4), PartitionEpoch(10))


def success(partition_epoch: int) -> AlterPartitionResult:
    return AlterPartitionResult(
        *("t", TopicId("id"), 3, ErrorCode.NONE, ONE, LeaderEpoch(7), (ONE, TWO), 0),
        partition_epoch=PartitionEpoch(partition_epoch),
    )


def failure(code: ErrorCode) -> AlterPartitionResult:
    return AlterPartitionResult("t", TopicId("id"), 3, code)


@pytest.mark.rule("R8.18", "R8.22")
def test_the_leader_writes_the_proposal_with_the_epoch_of_the_controller_that_decided() -> None:
    assert leadership_to_write(ITEM, ONE, ControllerEpoch(4)) == WRITTEN


@pytest.mark.rule("R8.19")
@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (OpResult(ZkError.OK, stat=Stat(1, 2, 10, 0)), success(10)),
        (OpResult(ZkError.BAD_VERSION), None),
        (OpResult(ZkError.NO_NODE), failure(ErrorCode.INVALID_UPDATE_VERSION)),
        (OpResult(ZkError.NO_AUTH), failure(ErrorCode.UNKNOWN_SERVER_ERROR)),
    ],
    ids=lambda value: value.error.name if isinstance(value, OpResult) else "",
)
def test_each_result_of_the_write_has_its_meaning(result: OpResult, answer: AlterPartitionResult | None) -> None:
    assert classify_write(ITEM, WRITTEN, result) == answer


OTHERS = {
    "no znode": None,
    "another leader": replace(WRITTEN, leader=TWO),
    "another leader epoch": replace(WRITTEN, leader_epoch=LeaderEpoch(8)),
    "another controller epoch": replace(WRITTEN, controller_epoch=ControllerEpoch(5)),
    "another ISR": replace(WRITTEN, isr=(ONE,)),
    "another order": replace(WRITTEN, isr=(TWO, ONE)),
}


@pytest.mark.rule("R8.19", "R8.21")
@pytest.mark.parametrize("found", OTHERS.values(), ids=OTHERS)
def test_another_content_is_somebody_elses_write(found: LeaderAndIsr | None) -> None:
    assert compare_with_znode(ITEM, WRITTEN, found) == failure(ErrorCode.INVALID_UPDATE_VERSION)


@pytest.mark.rule("R8.19")
def test_the_content_that_was_to_be_written_is_a_success_of_the_version_just_read() -> None:
    assert compare_with_znode(ITEM, WRITTEN, replace(WRITTEN, partition_epoch=PartitionEpoch(11))) == success(11)


@pytest.mark.rule("R8.23")
@pytest.mark.parametrize(
    ("now_ms", "last_change_ms", "last_propagation_ms", "due"),
    [
        (5_000, 0, 0, False),
        (5_001, 0, 0, True),
        (60_000, 59_000, 0, False),
        (60_001, 60_000, 0, True),
        (70_000, 69_000, 60_001, False),
        (74_001, 69_000, 60_001, True),
    ],
)
def test_changes_are_announced_once_quiet_or_after_a_minute(
    now_ms: float, last_change_ms: float, last_propagation_ms: float, due: bool
) -> None:
    found = is_propagation_due(now_ms, last_change_ms=last_change_ms, last_propagation_ms=last_propagation_ms)
    assert found is due
