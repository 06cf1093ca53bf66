"""Power failures by the boot ids in the logs, and which truncations they explain."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, Offset
from state_log.invariants import ELECTED_HAS_COMMITTED, TRUNCATED_BELOW_HIGH_WATERMARK, InvariantViolation, check_all
from state_log.machine_restarts import MachineRestart, boots_of, is_explained, machine_restarts, restarts_before
from state_log.record import Kind, LoggedStateChange
from tests.controllers.contexts import ids

FIRST, SECOND, THIRD = "1700000001000.7", "1700000002000.8", "1700000003000.9"


def starts(broker: int, incarnation: str, boot: str | None) -> LoggedStateChange:
    """The first record of a run."""
    return LoggedStateChange(
        kind=Kind.ROLE,
        v=2,
        seq=0,
        node=f"broker-{broker}",
        incarnation=incarnation,
        at_ms=int(incarnation[:13]),
        boot_id=boot,
        topic="orders",
        partition=0,
        broker=broker,
        to_state="follower",
        replicas=ids(1, 2),
    )


def truncation(broker: int = 1, at_ms: int = 1_700_000_002_500) -> LoggedStateChange:
    """Of its log, below its high watermark."""
    record = replace(starts(broker, FIRST, None), kind=Kind.TRUNCATION, seq=1, at_ms=at_ms, leader=BrokerId(2))
    return replace(
        record, to_state=None, replicas=None, from_offset=Offset(9), to_offset=Offset(3), high_watermark=Offset(5)
    )


def finding(records: Sequence[LoggedStateChange]) -> InvariantViolation:
    (found,) = [found for found in check_all(records) if found.rule == TRUNCATED_BELOW_HIGH_WATERMARK]
    return found


def test_a_machine_was_started_anew_where_the_boot_of_a_later_run_differs() -> None:
    runs = [starts(2, THIRD, "b"), starts(2, FIRST, "a"), starts(1, FIRST, "c"), starts(1, SECOND, "c")]
    assert machine_restarts(boots_of(runs)) == [MachineRestart("broker-2", THIRD, "a", "b")]
    assert machine_restarts(boots_of([*runs, starts(2, SECOND, "b")])) == [MachineRestart("broker-2", SECOND, "a", "b")]


def test_a_run_whose_boot_is_unknown_says_nothing() -> None:
    runs = [starts(2, FIRST, "a"), starts(2, SECOND, None), starts(2, THIRD, "a")]
    assert machine_restarts(boots_of(runs)) == []


@pytest.mark.parametrize("incarnation", ["x", "-1.7", "", "9" * 5000, "1e9.7", "²"])
def test_a_run_that_is_not_named_by_its_time_explains_nothing(incarnation: str) -> None:
    restart = MachineRestart("broker-2", incarnation, "a", "b")
    assert restarts_before(TRUNCATED_BELOW_HIGH_WATERMARK, [restart], "broker-1", 1 << 62, [1, 2]) == []


def test_the_restart_says_what_is_lost_and_by_which_boots() -> None:
    restart = MachineRestart("broker-2", SECOND, "a", "b")
    assert str(restart) == (
        "broker-2/1700000002000.8: its machine was restarted before (boot b, earlier a): "
        "what was not flushed to its disk is lost"
    )
    assert restart.by_ms == 1_700_000_002_000


@pytest.mark.parametrize(
    ("node", "at_ms", "replicas", "found"),
    [
        ("broker-1", 1_700_000_002_000, (1, 2), True),
        ("broker-1", 1_700_000_001_999, (1, 2), False),
        ("broker-1", 1_700_000_002_000, (1, 3), False),
        ("broker-2", 1_700_000_002_000, (1, 2), False),
    ],
)
def test_a_restart_concerns_other_replicas_of_the_partition_afterwards(
    node: str, at_ms: int, replicas: tuple[int, ...], found: bool
) -> None:
    restart = MachineRestart("broker-2", SECOND, "a", "b")
    expected = [restart] if found else []
    assert restarts_before(TRUNCATED_BELOW_HIGH_WATERMARK, [restart], node, at_ms, replicas) == expected


@pytest.mark.parametrize(
    ("boot", "broker", "at_ms", "explained"),
    [
        ("b", 1, 1_700_000_002_500, True),
        # The broker's process alone was restarted.
        ("a", 1, 1_700_000_002_500, False),
        ("b", 1, 1_700_000_001_500, False),
        ("b", 2, 1_700_000_002_500, False),
    ],
)
def test_a_truncation_is_explained_by_the_power_failure_of_another_replica_before_it(
    boot: str, broker: int, at_ms: int, explained: bool
) -> None:
    runs = [starts(1, FIRST, "c"), starts(2, FIRST, "a"), starts(2, SECOND, boot)]
    records = [*runs, truncation(broker, at_ms)]
    assert is_explained(finding(records), records) == explained


def test_no_power_failure_explains_anything_else() -> None:
    runs = [starts(1, FIRST, "c"), starts(2, FIRST, "a"), starts(2, SECOND, "b")]
    other = InvariantViolation("one-leader-per-epoch", "", (runs[0].reference,), "orders", 0)
    assert not is_explained(other, runs)


@pytest.mark.parametrize("node", ["broker-2", "broker-1"])
def test_an_elected_leader_may_have_lost_records_itself_or_fetched_from_one_that_did(node: str) -> None:
    restart = MachineRestart("broker-2", SECOND, "a", "b")
    assert restarts_before(ELECTED_HAS_COMMITTED, [restart], node, restart.by_ms, [1, 2]) == [restart]
    assert restarts_before(ELECTED_HAS_COMMITTED, [restart], node, restart.by_ms - 1, [1, 2]) == []
    assert restarts_before(ELECTED_HAS_COMMITTED, [restart], node, restart.by_ms, [1, 3]) == []
