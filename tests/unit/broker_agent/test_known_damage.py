"""What an agent knows of its damaged replicas, by partition and by the first offset."""

import pytest

from broker_agent.log.known_damage import KnownDamage
from broker_agent.log_damage import DamagedReplica, LogDamage, in_doubt
from cluster.model.broker import Offset
from cluster.model.partition import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def damaged(tp: TopicPartition, begin: int, end: int, directory: str = "/x") -> DamagedReplica:
    return DamagedReplica(tp, None, directory, LogDamage(Offset(begin), Offset(end), 0, "lost"))


@pytest.mark.rule("R9.33")
def test_a_replica_can_be_damaged_in_several_places_and_loses_one_after_the_other() -> None:
    known = KnownDamage()
    first, second, other = damaged(A, 1, 5), damaged(A, 7, 9), damaged(B, 1, 5)
    for replica in (first, other, second):
        known.add(replica)
    assert (known.of(A), known.of(B)) == ((first, second), (other,))
    assert set(known.all) == {first, second, other}
    known.add(longer := damaged(A, 1, 6))
    known.remove(second)
    assert known.of(A) == (longer,)
    known.remove(first)
    assert (known.of(A), known.all) == ((), (other,))


@pytest.mark.rule("R9.33")
def test_directories_are_written_again_only_after_a_change() -> None:
    known = KnownDamage()
    known.load([damaged(A, 1, 5, "/x"), damaged(B, 1, 5, "/y")])
    known.remove(damaged(A, 2, 5, "/x"))
    assert known.unsaved == set()
    known.remove(damaged(A, 1, 5, "/x"))
    assert known.unsaved == {"/x"}
    known.directory_failed("/x")
    assert (known.unsaved, list(known.all)) == (set(), known.in_directory("/y"))


@pytest.mark.rule("R9.22")
@pytest.mark.parametrize(("found", "kept"), [(4, 5), (5, 5), (6, 6)])
def test_damage_that_is_found_again_keeps_what_went_further(found: int, kept: int) -> None:
    known = KnownDamage()
    known.load([damaged(A, 1, 5)])
    known.add_found(damaged(A, 1, found))
    assert [replica.damage.to_offset for replica in known.of(A)] == [kept]


@pytest.mark.rule("D-119")
def test_a_doubt_stands_beside_damage_and_replaces_an_earlier_doubt() -> None:
    known = KnownDamage()
    known.add(damage := damaged(A, 5, 9))
    known.add(in_doubt(A, None, "/x", Offset(9)))
    known.add(doubt := in_doubt(A, None, "/x", Offset(5)))
    assert known.of(A) == (damage, doubt)
    known.remove(in_doubt(A, None, "/x", Offset(7)))
    assert known.of(A) == (damage,)
