from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.requests import agents, cluster, control, data, topics
from cluster.rpc.budgets import RESERVES, Bound, Budget, Peer
from cluster.rpc.call_kinds import CallKind, kind_of

HERE = Peer.parse("ipv4:10.0.0.1:4711")


def peer(address: int, port: int) -> Peer:
    return Peer.parse(f"ipv4:10.0.0.{address}:{port}")


def fill(budget: Budget, kind: CallKind, amount: int = 1) -> int:
    """Use as much as `kind` may, over many addresses; returns how much that was."""
    used = 0
    while budget.obstacle(kind, peer(used % 200, used), amount) is None:
        budget.take(kind, peer(used % 200, used), amount)
        used += amount
    return used


@pytest.mark.parametrize(
    ("request_type", "kind"),
    [
        (control.LeaderAndIsrRequest, CallKind.CONTROL),
        (control.UpdateMetadataRequest, CallKind.CONTROL),
        (agents.AlterPartitionRequest, CallKind.CONTROL),
        (agents.AllocateProducerIdsRequest, CallKind.CONTROL),
        (data.FetchRequest, CallKind.FETCH),
        (data.ProduceRequest, CallKind.PRODUCE),
        (data.ListOffsetsRequest, CallKind.ADMIN),
        (data.MetadataRequest, CallKind.ADMIN),
        (topics.CreateTopicsRequest, CallKind.ADMIN),
        (cluster.DescribeClusterRequest, CallKind.ADMIN),
        (cluster.WatchRequest, CallKind.WATCH),
    ],
)
@pytest.mark.rule("AD-2")
def test_the_kind_of_a_call_is_that_of_its_request(request_type: type, kind: CallKind) -> None:
    assert kind_of(request_type) is kind


@pytest.mark.parametrize("name", ["ipv4:10.0.0.1:4711", "ipv6:%5B::1%5D:4711"])
def test_an_address_is_a_connection_without_its_port(name: str) -> None:
    assert Peer.parse(name) == Peer(name, name.removesuffix(":4711"))


@pytest.mark.rule("AD-1")
@pytest.mark.parametrize("kind", list(CallKind))
def test_each_kind_has_a_reserve_when_all_lower_ones_have_all_they_may(kind: CallKind) -> None:
    budget = Budget(800)
    for lower in reversed(CallKind):
        if lower > kind:
            fill(budget, lower)
    assert fill(budget, kind) >= 800 // RESERVES


@pytest.mark.rule("AD-1")
def test_higher_kinds_may_use_what_lower_ones_leave() -> None:
    used = {kind: fill(Budget(800), kind) for kind in CallKind}
    assert list(used.values()) == sorted(used.values(), reverse=True)
    assert used[CallKind.CONTROL] == 800


@pytest.mark.rule("AD-1")
def test_a_kind_that_higher_ones_crowded_out_gets_nothing() -> None:
    budget = Budget(800)
    fill(budget, CallKind.ADMIN)
    assert budget.obstacle(CallKind.FETCH, HERE, 1) is Bound.KIND
    assert budget.obstacle(CallKind.REPLICATION, HERE, 1) is None


@pytest.mark.rule("AD-3")
def test_one_connection_and_one_address_get_a_part_of_what_a_kind_may_use() -> None:
    budget = Budget(800)
    for used in range(budget.limit(CallKind.PRODUCE, Bound.CONNECTION)):
        assert budget.obstacle(CallKind.PRODUCE, HERE, 1) is None, used
        budget.take(CallKind.PRODUCE, HERE, 1)
    assert budget.obstacle(CallKind.PRODUCE, HERE, 1) is Bound.CONNECTION
    for port in range(budget.limit(CallKind.PRODUCE, Bound.ADDRESS) - budget.limit(CallKind.PRODUCE, Bound.CONNECTION)):
        budget.take(CallKind.PRODUCE, peer(1, port), 1)
    assert budget.obstacle(CallKind.PRODUCE, peer(1, 9999), 1) is Bound.ADDRESS
    assert budget.obstacle(CallKind.PRODUCE, peer(2, 9999), 1) is None
    assert budget.obstacle(CallKind.FETCH, HERE, 1) is None


@pytest.mark.rule("AD-3")
def test_control_calls_are_limited_by_the_whole_budget_only() -> None:
    budget = Budget(80)
    for _ in range(80):
        assert budget.obstacle(CallKind.CONTROL, HERE, 1) is None
        budget.take(CallKind.CONTROL, HERE, 1)
    assert budget.obstacle(CallKind.CONTROL, HERE, 1) is Bound.KIND


Step = tuple[CallKind, int, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(CallKind), st.integers(1, 3), st.integers(1, 3), st.integers(1, 40)), max_size=120
)


@pytest.mark.rule("AD-1", "AD-3")
@given(steps=steps, ends=st.lists(st.integers(0, 1000), max_size=120))
def test_no_bound_is_ever_exceeded_and_all_is_given_back(steps: Sequence[Step], ends: Sequence[int]) -> None:
    budget, held = Budget(100, smallest=5), list[tuple[CallKind, Peer, int]]()
    for number, (kind, address, port, amount) in enumerate(steps):
        item = (kind, peer(address, port), amount)
        if budget.obstacle(*item) is None:
            budget.take(*item)
            held.append(item)
        elif held and number < len(ends):
            budget.give_back(*held.pop(ends[number] % len(held)))
        _check(budget, held)
    for item in held:
        budget.give_back(*item)
    assert budget.used == 0
    assert not budget._held


def _check(budget: Budget, held: Sequence[tuple[CallKind, Peer, int]]) -> None:
    for kind in CallKind:
        assert sum(amount for k, _, amount in held if k >= kind) <= budget.limit(kind)
        if kind is not CallKind.CONTROL:
            of_kind = [(p, amount) for k, p, amount in held if k is kind]
            for holder, _ in of_kind:
                of_connection = sum(amount for p, amount in of_kind if p == holder)
                of_address = sum(amount for p, amount in of_kind if p.address == holder.address)
                assert of_connection <= budget.limit(kind, Bound.CONNECTION)
                assert of_address <= budget.limit(kind, Bound.ADDRESS)
