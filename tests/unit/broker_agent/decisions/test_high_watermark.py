import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.decisions.high_watermark import effective_min_isr, high_watermark_candidate
from broker_agent.decisions.replica_progress import NEVER, ReplicaProgress
from cluster.model.broker import BrokerId, Offset

LAG_MS = 30_000


def candidate(
    remote: dict[int, tuple[int, float]], *, isr: tuple[int, ...], alive: tuple[int, ...] = (), end: int = 20
) -> Offset:
    return high_watermark_candidate(
        Offset(end),
        {
            BrokerId(broker): ReplicaProgress(log_end_offset=Offset(offset), last_caught_up_ms=caught_up_ms)
            for broker, (offset, caught_up_ms) in remote.items()
        },
        maximal_isr=[BrokerId(broker) for broker in isr],
        alive=[BrokerId(broker) for broker in alive],
        now_ms=100_000,
        lag_ms_max=LAG_MS,
    )


@pytest.mark.rule("R6.18")
@pytest.mark.parametrize(
    ("remote", "isr", "alive", "expected"),
    [
        ({}, (1,), (), 20),
        ({2: (15, NEVER)}, (1, 2), (), 15),
        ({2: (15, NEVER), 3: (12, NEVER)}, (1, 2, 3), (), 12),
        ({2: (-1, 100_000)}, (1, 2), (), -1),  # Has not fetched since the election: blocks.
        ({2: (15, NEVER)}, (1,), (2,), 20),  # Not a member, and far behind.
        ({2: (15, 80_000)}, (1,), (2,), 15),  # Not a member, but about to join.
        ({2: (15, 80_000)}, (1,), (), 20),  # About to join, but its broker is gone.
        ({2: (20, 80_000)}, (1, 2), (2,), 20),
    ],
)
def test_the_candidate_is_the_smallest_end_that_must_be_waited_for(
    remote: dict[int, tuple[int, float]], isr: tuple[int, ...], alive: tuple[int, ...], expected: int
) -> None:
    assert candidate(remote, isr=isr, alive=alive) == expected


@pytest.mark.rule("P16", "P9")
@given(
    st.integers(0, 50),
    st.dictionaries(st.integers(2, 6), st.tuples(st.integers(-1, 50), st.floats(0, 1e5))),
    st.sets(st.integers(2, 6)),
    st.sets(st.integers(2, 6)),
)
def test_the_candidate_is_never_above_the_leader_nor_above_any_member_of_the_maximal_isr(
    end: int, remote: dict[int, tuple[int, float]], isr: set[int], alive: set[int]
) -> None:
    found = candidate(remote, isr=tuple(isr), alive=tuple(alive), end=end)
    assert found <= end
    assert all(found <= offset for broker, (offset, _) in remote.items() if broker in isr)
    assert found in {end, *(offset for offset, _ in remote.values())}


@pytest.mark.rule("R6.18")
def test_more_in_sync_replicas_than_replicas_are_never_asked_for() -> None:
    assert effective_min_isr(3, 2) == 2
    assert effective_min_isr(2, 3) == 2
