"""Which replica a consumer is sent to, and who may read what from which."""

import pytest

from broker_agent.decisions.read_replica import choose_read_replica, may_read_from_follower, reads_to_log_end
from broker_agent.decisions.replica_progress import ReplicaProgress
from cluster.model.broker import BrokerId, Offset
from cluster.requests.data import FetchRequest

LEADER = BrokerId(1)
RACKS = {BrokerId(1): "a", BrokerId(2): "b", BrokerId(3): "b", BrokerId(4): "c", BrokerId(5): None}


def progress(end: int, start: int = 0, caught_up_ms: float = 0) -> ReplicaProgress:
    return ReplicaProgress(Offset(end), Offset(start), last_caught_up_ms=caught_up_ms)


def choose(rack: str, followers: dict[int, ReplicaProgress], *, isr: tuple[int, ...] = (1, 2, 3, 4, 5)) -> int | None:
    known = {BrokerId(broker): state for broker, state in followers.items()}
    return choose_read_replica(rack, Offset(10), LEADER, known, isr=tuple(map(BrokerId, isr)), racks=RACKS)


@pytest.mark.rule("R6.23")
@pytest.mark.parametrize(
    ("rack", "followers", "isr", "chosen"),
    [
        pytest.param("b", {2: progress(10)}, (1, 2), 2, id="in sync, with the offset"),
        pytest.param("b", {2: progress(10)}, (1,), None, id="not in sync"),
        pytest.param("b", {2: progress(9)}, (1, 2), None, id="it does not have the offset yet"),
        pytest.param("b", {2: progress(20, 11)}, (1, 2), None, id="it does not have the offset any more"),
        pytest.param("b", {2: progress(-1, -1)}, (1, 2), None, id="nothing known of it"),
        pytest.param("c", {2: progress(10)}, (1, 2), None, id="another rack"),
        pytest.param("a", {2: progress(10), 4: progress(10)}, (1, 2, 4), None, id="the leader's rack"),
        pytest.param("", {5: progress(10)}, (1, 5), None, id="a consumer without a rack"),
        pytest.param("b", {6: progress(10), 5: progress(10)}, (1, 5, 6), None, id="brokers without a rack, or unknown"),
        pytest.param("b", {2: progress(10), 3: progress(11)}, (1, 2, 3), 3, id="the longest log"),
        pytest.param("b", {2: progress(11, 0, 5), 3: progress(11, 0, 4)}, (1, 2, 3), 2, id="then who caught up last"),
        pytest.param("b", {2: progress(11), 3: progress(11)}, (1, 2, 3), 3, id="then the same one each time"),
    ],
)
def test_a_consumer_reads_from_a_follower_in_its_rack_that_is_in_sync_and_has_the_offset(
    rack: str, followers: dict[int, ReplicaProgress], isr: tuple[int, ...], chosen: int | None
) -> None:
    assert choose(rack, followers, isr=isr) == chosen


@pytest.mark.rule("R6.4", "R6.8")
@pytest.mark.parametrize(
    ("replica", "rack", "from_follower", "to_log_end"),
    [
        (-1, "", False, False),
        (-1, "a", True, False),
        (2, "", False, True),
        (2, "a", False, True),
        (-2, "", True, True),
        (-3, "", True, True),
    ],
)
def test_who_reads_from_a_follower_and_up_to_the_log_end(
    replica: int, rack: str, from_follower: bool, to_log_end: bool
) -> None:
    request = FetchRequest(BrokerId(replica), (), 0, 1, 1, rack_id=rack)
    assert may_read_from_follower(request) is from_follower
    assert reads_to_log_end(request) is to_log_end
