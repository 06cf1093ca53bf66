"""What brokers of Apache Kafka show, against what klamm's controllers wrote."""

import numpy
import pyarrow
import pytest

from audit.rules.applied_states import AGENT_DISAGREES
from audit.rules.governed_brokers import GovernedSince, leaders_unlike, states_unlike, states_unwritten
from audit.rules.leader_claims import CLAIMS
from audit.rules.partition_states import STATES
from state_log.histories import NO_EPOCH, ONE_LEADER_PER_EPOCH, ONE_STATE_PER_PARTITION_EPOCH

CONTROLLER = "controller-1002"


def states(node: str, leader: int, controller_epoch: int, at_ms: int) -> pyarrow.Table:
    row = {
        **{"key": 1, "sub": 0, "content": leader, "leader_epoch": 0, "leader": leader, "isr": [leader]},
        **{"first_controller_epoch": controller_epoch, "last_controller_epoch": controller_epoch, "at_ms": at_ms},
        **{"node": node, "incarnation": "1", "seq": 0},
    }
    return pyarrow.Table.from_pylist([row], STATES)


@pytest.mark.parametrize(
    ("controller_epoch", "at_ms", "always", "counts"),
    [
        (4, 9_000, False, False),
        (5, 1_000, False, True),
        (NO_EPOCH, 1_000, False, False),
        (NO_EPOCH, 4_500, False, True),
        (NO_EPOCH, 1_000, True, True),
    ],
)
def test_what_brokers_show_counts_from_when_klamm_governs(
    controller_epoch: int, at_ms: int, always: bool, counts: bool
) -> None:
    """By the controller epoch that they name; where they name none, by time."""
    written, shown = states(CONTROLLER, 1, 5, 5_000), states("kafka-broker-1", 2, controller_epoch, at_ms)
    found = list(states_unlike(written, shown, GovernedSince(always, 1_000)))
    assert [each.rule for each in found] == [AGENT_DISAGREES] * counts


def test_each_state_counts_from_when_klamm_wrote_it() -> None:
    """The first state of a partition was written long before the second."""
    first, second = states(CONTROLLER, 1, 5, 5_000), states(CONTROLLER, 1, 6, 9_000)
    second = second.set_column(1, STATES.field("sub"), pyarrow.array([1], pyarrow.int64()))
    shown = states("kafka-broker-1", 2, NO_EPOCH, 6_000)
    shown = shown.set_column(1, STATES.field("sub"), pyarrow.array([1], pyarrow.int64()))
    written = pyarrow.concat_tables([first, second])
    assert list(states_unlike(written, shown, GovernedSince(False, 1_000))) == []
    assert len(list(states_unlike(written, shown, GovernedSince(False, 3_000)))) == 1


def test_another_state_of_a_controller_of_kafkas_is_a_second_one_at_a_partition_epoch() -> None:
    written, shown = states(CONTROLLER, 1, 5, 5_000), states("kafka-controller-1", 2, 6, 6_000)
    (found,) = states_unlike(written, shown, GovernedSince(False, 1_000))
    assert (found.rule, found.records) == (
        ONE_STATE_PER_PARTITION_EPOCH,
        ("controller-1002/1/0", "kafka-controller-1/1/0"),
    )


def test_what_differs_is_said_of_the_broker_and_the_controller() -> None:
    written, shown = states(CONTROLLER, 1, 5, 5_000), states("kafka-broker-1", 2, 5, 6_000)
    (found,) = states_unlike(written, shown, GovernedSince(False, 0))
    assert found == (
        AGENT_DISAGREES,
        1,
        "partition-epoch 0 content 0000000000000002",
        "kafka-broker-1 shows partition epoch 0 as leader 2, leader epoch 0, ISR [2]; "
        "controller-1002 wrote it as leader 1, leader epoch 0, ISR [1]",
        ("controller-1002/1/0", "kafka-broker-1/1/0"),
        6_000,
    )
    assert list(states_unlike(written, states("kafka-broker-1", 1, 5, 6_000), GovernedSince(False, 0))) == []


def claims(node: str, leader: int, at_ms: int) -> pyarrow.Table:
    row = {"key": 1, "sub": 3, "leader": leader, "at_ms": at_ms, "node": node, "incarnation": "1", "seq": 0}
    return pyarrow.Table.from_pylist([row], CLAIMS.schema)


@pytest.mark.parametrize(("leader", "at_ms", "counts"), [(1, 6_000, 0), (2, 6_000, 1), (2, 4_000, 1), (2, 3_999, 0)])
def test_a_leader_that_klamm_did_not_name_counts_from_when_it_governs(leader: int, at_ms: int, counts: int) -> None:
    found = list(
        leaders_unlike(
            claims(CONTROLLER, 1, 5_000), claims("kafka-broker-1", leader, at_ms), GovernedSince(False, 1_000)
        )
    )
    assert [(each.rule, each.subject, each.message) for each in found] == [
        (
            ONE_LEADER_PER_EPOCH,
            "leader-epoch 3 leader 2",
            "kafka-broker-1 names leader 2 in leader epoch 3; controller-1002 leader 1",
        )
    ] * counts


@pytest.mark.parametrize(("epochs", "missing"), [([5], 0), ([6], 1), ([], 0)])
def test_a_state_is_unwritten_where_klamm_wrote_none_at_its_epoch(epochs: list[int], missing: int) -> None:
    sent = states("kafka-broker-1", 2, 6, 6_000)
    later = sent.set_column(1, "sub", pyarrow.array([7], pyarrow.int64()))
    shown = pyarrow.concat_tables([sent, later])
    found = states_unwritten(states(CONTROLLER, 1, 5, 5_000), shown, numpy.array(epochs, numpy.int64))
    assert found["sub"].to_pylist() == [7] * missing
