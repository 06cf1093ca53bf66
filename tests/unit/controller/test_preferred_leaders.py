"""The index of preferred leaders by itself, and the plan that is made from it."""

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId
from controller.changes import BrokerShuttingDown, DeletionsQueued, OfflineReplicasReported
from controller.context.leaderships import PreferredLeaders
from controller.decisions.partitions.leader_balance import plan_leader_balance
from tests.controllers.contexts import context, leadership, tp

ONE = BrokerId(1)


def test_what_a_broker_leads_and_what_it_should_lead_are_counted_apart() -> None:
    index = PreferredLeaders()
    assert (index.brokers(), index.meant_to_lead(ONE), set(index.led_by_others(ONE))) == ([], 0, set())
    index.count(ONE, +1)
    index.count(ONE, +1)
    assert (index.brokers(), index.meant_to_lead(ONE)) == ([], 2)
    index.mark(ONE, tp("t-0"), +1)
    assert (index.brokers(), set(index.led_by_others(ONE))) == ([1], {tp("t-0")})
    index.mark(ONE, tp("t-0"), -1)
    assert index.brokers() == []
    with pytest.raises(KeyError):
        index.mark(ONE, tp("t-0"), -1)


def test_two_indexes_are_equal_when_they_say_the_same_whatever_came_before() -> None:
    one, other = PreferredLeaders(), PreferredLeaders()
    assert one == other
    one.count(ONE, +1)
    assert one != other
    assert one != "something else"
    other.count(ONE, +1)
    one.mark(ONE, tp("t-0"), +1)
    assert one != other
    one.mark(ONE, tp("t-0"), -1)
    one.count(BrokerId(2), +1)
    one.count(BrokerId(2), -1)
    assert one == other
    with pytest.raises(TypeError):
        hash(one)


@pytest.mark.rule("EP-21", "EP-22", "EP-24")
def test_only_brokers_over_the_limit_get_back_what_they_could_lead_right_now() -> None:
    cluster = context(
        [1, 2, 3],
        {
            **{f"t-{p}": [1, 2] for p in range(5)},
            "u-0": [2, 1],
            "v-0": [3, 1],
            "w-0": [9, 1],
            "gone-0": [3, 1],
            "new-0": [3, 1],
        },
        {
            # Of six partitions broker 1 should lead five, and leads one.
            "t-0": leadership(1, [1, 2]),
            "t-1": leadership(2, [2, 1]),
            "t-2": leadership(2, [2]),
            "t-3": leadership(2, [2, 1]),
            "t-4": leadership(-1, [1]),
            "u-0": leadership(2, [2, 1]),
            "v-0": leadership(1, [1, 3]),
            "w-0": leadership(1, [1, 9]),
            "gone-0": leadership(1, [1, 3]),
        },
    )
    cluster.apply(DeletionsQueued(("gone",)))
    cluster.apply(OfflineReplicasReported(ONE, frozenset([tp("t-3")])))
    assert plan_leader_balance(cluster, 79, elections_max=9).moves == {ONE: (tp("t-1"), tp("t-4"))}
    # Broker 3 should lead two partitions, of which one never had a leader and counts all the same.
    assert plan_leader_balance(cluster, 49, elections_max=9).moves == {
        ONE: (tp("t-1"), tp("t-4")),
        BrokerId(3): (tp("v-0"),),
    }
    assert plan_leader_balance(cluster, 50, elections_max=9).moves == {ONE: (tp("t-1"), tp("t-4"))}
    assert plan_leader_balance(cluster, 80, elections_max=9).moves == {}
    cluster.topics.names.discard("v")
    assert plan_leader_balance(cluster, 0, elections_max=9).moves == {ONE: (tp("t-1"), tp("t-4"))}
    cluster.apply(BrokerShuttingDown(BrokerId(1), BrokerEpoch(101)))
    assert plan_leader_balance(cluster, 0, elections_max=9).moves == {}
