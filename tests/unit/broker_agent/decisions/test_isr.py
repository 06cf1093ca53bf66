import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.decisions.isr import (
    CommittedIsr,
    IsrAnswer,
    IsrProposal,
    IsrState,
    classify_isr_answer,
    maximal_isr,
    propose_expand,
    propose_shrink,
)
from broker_agent.decisions.replica_progress import ReplicaProgress
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.requests.agents import AlterPartitionResult


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


COMMITTED = CommittedIsr(ids(1, 2))
EXPANDING = IsrProposal(ids(1, 2), ids(1, 2, 3), (BrokerEpoch(-1), BrokerEpoch(-1), BrokerEpoch(7)))
SHRINKING = IsrProposal(ids(1, 2), ids(1), (BrokerEpoch(-1),))


def at(end: int, caught_up_ms: float = 0, epoch: int = -1) -> ReplicaProgress:
    return ReplicaProgress(log_end_offset=Offset(end), last_caught_up_ms=caught_up_ms, broker_epoch=BrokerEpoch(epoch))


def expand(
    state: IsrState, replica: int, end: int = 20, *, epoch: int = -1, epoch_start: int = 20, alive: bool = True
) -> IsrProposal | None:
    return propose_expand(
        state,
        BrokerId(replica),
        at(end, epoch=epoch),
        high_watermark=Offset(10),
        epoch_start_offset=Offset(epoch_start),
        is_alive=alive,
    )


def shrink(state: IsrState, remote: dict[BrokerId, ReplicaProgress], now_ms: float = 100_000) -> IsrProposal | None:
    return propose_shrink(state, BrokerId(1), remote, leader_end_offset=Offset(10), now_ms=now_ms, lag_ms_max=30_000)


def without(isr: tuple[BrokerId, ...], *gone: int) -> tuple[BrokerId, ...]:
    """The ISR that the leader proposes when only these lag behind."""
    proposal = shrink(CommittedIsr(isr), {broker: at(10) for broker in isr if broker not in gone})
    assert proposal is not None
    assert not proposal.is_expansion
    return proposal.isr


@pytest.mark.rule("R8.1")
@pytest.mark.parametrize(
    ("state", "maximal"), [(COMMITTED, (1, 2)), (EXPANDING, (1, 2, 3)), (SHRINKING, (1, 2))], ids=repr
)
def test_the_maximal_isr_counts_whoever_may_be_in_force(state: IsrState, maximal: tuple[int, ...]) -> None:
    assert maximal_isr(state) == maximal


def test_a_proposal_keeps_the_order_of_the_committed_isr() -> None:
    assert expand(COMMITTED, 3, epoch=7) == EXPANDING
    assert without(ids(1, 2), 2) == (1,)
    assert shrink(COMMITTED, {}) == SHRINKING
    assert without(ids(3, 1, 2), 2) == (3, 1)
    proposal = expand(CommittedIsr(ids(4, 2, 5)), 1, epoch=9)
    assert proposal is not None
    assert proposal.is_expansion
    assert (proposal.isr, proposal.epochs) == ((4, 2, 5, 1), (-1, -1, -1, 9))


@pytest.mark.rule("R8.13")
def test_a_proposal_of_more_than_four_or_out_of_more_than_four_is_in_the_order_of_hashes() -> None:
    proposal = expand(CommittedIsr(ids(4, 2, 1, 5)), 3, epoch=9)
    assert proposal is not None
    assert (proposal.isr, proposal.epochs) == ((5, 1, 2, 3, 4), (-1, -1, -1, 9, -1))
    assert without(ids(3, 1, 2, 5, 4), 4) == (5, 1, 2, 3)


def leaving(state: IsrState, remote: dict[BrokerId, ReplicaProgress]) -> tuple[BrokerId, ...]:
    proposal = shrink(state, remote)
    return () if proposal is None else tuple(broker for broker in state.committed if broker not in proposal.isr)


@pytest.mark.rule("R8.4", "R8.5", "R8.7")
def test_members_leave_when_they_are_behind_and_were_not_caught_up_within_the_lag_time() -> None:
    state = CommittedIsr(ids(1, 2, 3, 4, 5))
    remote = {
        BrokerId(2): at(10, 0),  # At the end: in sync however long ago it fetched.
        BrokerId(3): at(9, 70_000),  # Exactly at the limit.
        BrokerId(4): at(9, 69_999),
    }
    assert leaving(state, remote) == (4, 5)


@pytest.mark.rule("R8.2")
@pytest.mark.parametrize("state", [EXPANDING, SHRINKING])
def test_nobody_leaves_while_a_change_is_in_flight(state: IsrState) -> None:
    assert leaving(state, {}) == ()


@given(
    st.sets(st.integers(2, 6)), st.dictionaries(st.integers(2, 6), st.tuples(st.integers(-1, 10), st.floats(0, 1e5)))
)
def test_the_leader_never_leaves_and_only_members_do(isr: set[int], remote: dict[int, tuple[int, float]]) -> None:
    state = CommittedIsr(ids(1, *sorted(isr)))
    gone = leaving(state, {BrokerId(broker): at(*progress) for broker, progress in remote.items()})
    assert set(gone) <= isr


@pytest.mark.rule("R8.10", "R8.11", "P22")
@pytest.mark.parametrize(
    ("state", "end", "alive", "expected"),
    [
        (COMMITTED, 20, True, True),
        (COMMITTED, 19, True, False),  # Below the start of the leader's epoch.
        (COMMITTED, 9, True, False),  # Below the high watermark.
        (COMMITTED, 20, False, False),
        (CommittedIsr(ids(1, 2, 3)), 20, True, False),
        (EXPANDING, 20, True, False),
        (SHRINKING, 20, True, False),
    ],
)
def test_a_follower_joins_when_it_has_what_may_be_committed(
    state: IsrState, end: int, alive: bool, expected: bool
) -> None:
    assert expected is (expand(state, 3, end, alive=alive) is not None)


def test_a_follower_below_the_high_watermark_does_not_join_even_in_an_old_epoch() -> None:
    assert expand(COMMITTED, 3, 9, epoch_start=0) is None


def answer(code: ErrorCode, leader_epoch: int = 5, partition_epoch: int = 8) -> AlterPartitionResult:
    return AlterPartitionResult(
        "t", None, 0, code, BrokerId(1), LeaderEpoch(leader_epoch), ids(1), 0, PartitionEpoch(partition_epoch)
    )


@pytest.mark.rule("R8.15", "R8.16")
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (answer(ErrorCode.NONE), IsrAnswer.COMMIT),
        (answer(ErrorCode.NONE, partition_epoch=7), IsrAnswer.COMMIT),
        (answer(ErrorCode.NONE, partition_epoch=6), IsrAnswer.STAY_PENDING),
        (answer(ErrorCode.NONE, leader_epoch=4), IsrAnswer.STAY_PENDING),
        (answer(ErrorCode.NONE, leader_epoch=6), IsrAnswer.STAY_PENDING),
        (answer(ErrorCode.OPERATION_NOT_ATTEMPTED), IsrAnswer.REVERT),
        (answer(ErrorCode.INELIGIBLE_REPLICA), IsrAnswer.REVERT),
        *(
            (answer(code), IsrAnswer.STAY_PENDING)
            for code in (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.INVALID_UPDATE_VERSION,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.NEW_LEADER_ELECTED,
            )
        ),
        (answer(ErrorCode.UNKNOWN_SERVER_ERROR), IsrAnswer.SUBMIT_AGAIN),
        (answer(ErrorCode.REQUEST_TIMED_OUT), IsrAnswer.SUBMIT_AGAIN),
    ],
)
def test_the_answer_to_a_proposal_commits_reverts_leaves_pending_or_is_tried_again(
    result: AlterPartitionResult, expected: IsrAnswer
) -> None:
    assert classify_isr_answer(result, leader_epoch=LeaderEpoch(5), partition_epoch=PartitionEpoch(7)) is expected
