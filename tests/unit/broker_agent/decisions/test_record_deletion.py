import pytest

from broker_agent.decisions.record_deletion import low_watermark, validate_deletion
from broker_agent.decisions.replica_progress import ReplicaProgress
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode


@pytest.mark.rule("R7.15")
@pytest.mark.parametrize(
    ("offset", "policy", "code"),
    [
        (0, "delete", ErrorCode.NONE),
        (20, "delete", ErrorCode.NONE),
        (-1, "delete", ErrorCode.NONE),
        (20, "compact,delete", ErrorCode.NONE),
        (21, "delete", ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, "delete", ErrorCode.OFFSET_OUT_OF_RANGE),
        (5, "compact", ErrorCode.POLICY_VIOLATION),
        (21, "compact", ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_deletion_is_checked_by_the_policy_and_then_by_the_offset(offset: int, policy: str, code: ErrorCode) -> None:
    assert validate_deletion(Offset(offset), high_watermark=Offset(20), cleanup_policy=policy) is code


@pytest.mark.rule("R7.15")
@pytest.mark.parametrize(
    ("starts", "alive", "lowest"),
    [
        ({}, (), 7),
        ({2: 9, 3: 8}, (2, 3), 7),
        ({2: 9, 3: 4}, (2, 3), 4),
        ({2: 5, 3: 4}, (2,), 5),
        ({2: 5, 3: -1}, (2, 3), -1),
        ({2: 5, 3: -1}, (), 7),
    ],
)
def test_the_low_watermark_is_the_lowest_start_of_the_leader_and_its_live_followers(
    starts: dict[int, int], alive: tuple[int, ...], lowest: int
) -> None:
    remote = {BrokerId(broker): ReplicaProgress(log_start_offset=Offset(start)) for broker, start in starts.items()}
    assert low_watermark(Offset(7), remote, alive=[BrokerId(broker) for broker in alive]) == lowest
