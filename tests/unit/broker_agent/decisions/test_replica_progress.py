import pytest

from broker_agent.decisions.replica_progress import (
    NEVER,
    ReplicaProgress,
    is_caught_up,
    record_fetch,
    record_idle_fetch,
    restart_epoch,
)
from cluster.model.broker import BrokerEpoch, Offset


def fetch(previous: ReplicaProgress, *, offset: int, leader_end: int, at_ms: float) -> ReplicaProgress:
    return record_fetch(
        previous,
        fetch_offset=Offset(offset),
        log_start_offset=Offset(0),
        leader_end_offset=Offset(leader_end),
        broker_epoch=BrokerEpoch(7),
        now_ms=at_ms,
    )


@pytest.mark.rule("R6.10")
def test_e2_a_follower_one_batch_behind_is_caught_up_as_of_its_previous_fetch() -> None:
    progress = fetch(ReplicaProgress(), offset=10, leader_end=10, at_ms=0)
    assert (progress.last_caught_up_ms, progress.leader_end_offset_at_fetch, progress.last_fetch_ms) == (0, 10, 0)
    progress = fetch(progress, offset=10, leader_end=20, at_ms=100)
    assert (progress.last_caught_up_ms, progress.leader_end_offset_at_fetch, progress.last_fetch_ms) == (0, 20, 100)
    progress = fetch(progress, offset=20, leader_end=30, at_ms=200)
    assert progress.last_caught_up_ms == 100


@pytest.mark.rule("R6.10")
def test_a_follower_that_falls_behind_keeps_its_caught_up_time_and_its_end_may_go_down() -> None:
    progress = fetch(ReplicaProgress(), offset=10, leader_end=10, at_ms=50)
    behind = fetch(progress, offset=5, leader_end=30, at_ms=100)
    assert behind.last_caught_up_ms == 50
    assert behind.log_end_offset == 5
    assert behind.leader_end_offset_at_fetch == 30
    assert behind.broker_epoch == 7


KNOWN = ReplicaProgress(Offset(40), Offset(3), Offset(44), 900.0, 800.0, BrokerEpoch(7))


@pytest.mark.rule("R3.7a")
@pytest.mark.parametrize(
    ("is_new_leader", "in_isr", "expected"),
    [
        (True, True, ReplicaProgress(Offset(-1), Offset(-1), Offset(-1), NEVER, 1000.0, BrokerEpoch(-1))),
        (True, False, ReplicaProgress(Offset(-1), Offset(-1), Offset(-1), NEVER, NEVER, BrokerEpoch(-1))),
        (False, True, ReplicaProgress(Offset(40), Offset(3), Offset(50), 1000.0, 1000.0, BrokerEpoch(7))),
        (False, False, ReplicaProgress(Offset(40), Offset(3), Offset(50), NEVER, NEVER, BrokerEpoch(7))),
    ],
)
def test_a_new_epoch_resets_the_records_of_followers(
    is_new_leader: bool, in_isr: bool, expected: ReplicaProgress
) -> None:
    restarted = restart_epoch(
        KNOWN, is_new_leader=is_new_leader, in_isr=in_isr, epoch_start_offset=Offset(50), now_ms=1000.0
    )
    assert restarted == expected


@pytest.mark.rule("R6.13")
@pytest.mark.parametrize(
    ("end", "caught_up_ms", "expected"),
    [(50, NEVER, True), (49, 900.0, True), (49, 899.0, False), (49, NEVER, False)],
)
def test_caught_up_is_at_the_end_or_recently_so(end: int, caught_up_ms: float, expected: bool) -> None:
    progress = ReplicaProgress(log_end_offset=Offset(end), last_caught_up_ms=caught_up_ms)
    assert is_caught_up(progress, Offset(50), now_ms=1000, lag_ms_max=100) is expected


@pytest.mark.rule("R6.10")
def test_an_idle_fetch_is_one_at_the_end_of_the_log_and_an_earlier_one_changes_nothing() -> None:
    caught_up = fetch(ReplicaProgress(), offset=10, leader_end=10, at_ms=100)
    assert record_idle_fetch(caught_up, 600) == fetch(caught_up, offset=10, leader_end=10, at_ms=600)
    for earlier in (100.0, 50.0):
        assert record_idle_fetch(caught_up, earlier) is caught_up
