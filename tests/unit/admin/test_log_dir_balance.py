"""Which replicas are moved so that the log directories of a broker are used evenly."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from admin.moving.log_dir_balance import plan_balance
from cluster.model.errors import ErrorCode
from cluster.requests.log_dirs import DescribedLogDir, DescribedLogDirPartition, DescribedLogDirTopic


def directory(
    path: str, sizes: Mapping[str, int], *, total: int = 1000, futures: Mapping[str, int] = {}
) -> DescribedLogDir:
    """`sizes`, `futures`: the replicas by topic, each of partition 0."""
    replicas = [(name, size, False) for name, size in sizes.items()]
    replicas += [(name, size, True) for name, size in futures.items()]
    topics = tuple(
        DescribedLogDirTopic(name, (DescribedLogDirPartition(0, size, 0, future),)) for name, size, future in replicas
    )
    return DescribedLogDir(ErrorCode.NONE, path, topics, total, total)


def test_the_replica_that_evens_out_most_is_moved_from_the_fullest_to_the_emptiest_directory() -> None:
    full = directory("/a", {"large": 300, "middle": 100, "small": 10})
    balance = plan_balance([full, directory("/b", {"other": 200}), directory("/c", {})])
    assert (balance.moves[0].from_dir, balance.moves[0].to_dir) == ("/a", "/c")
    assert max(use.after for use in balance.uses) < 410
    assert sum(use.after for use in balance.uses) == sum(use.before for use in balance.uses) == 610


def test_a_larger_file_system_takes_more() -> None:
    replicas = {f"t{number}": 10 for number in range(12)}
    balance = plan_balance([directory("/a", replicas, total=1000), directory("/b", {}, total=2000)])
    assert [use.after for use in balance.uses] == [40, 80]
    unknown = plan_balance([directory("/a", replicas, total=1000), directory("/b", {}, total=-1)])
    assert [use.after for use in unknown.uses] == [60, 60]


def test_what_is_moved_already_counts_where_it_goes_and_failed_directories_are_left_out() -> None:
    failed = DescribedLogDir(ErrorCode.KAFKA_STORAGE_ERROR, "/c")
    moving = directory("/b", {}, futures={"t": 5})
    balance = plan_balance([directory("/a", {"t": 100}), moving, failed])
    assert balance.moves == ()
    assert [(use.log_dir, use.before) for use in balance.uses] == [("/a", 0), ("/b", 100)]


def test_small_differences_are_left_and_a_single_directory_has_nothing_to_even_out() -> None:
    near = [directory("/a", {"x": 102, "y": 2}), directory("/b", {"z": 100})]
    assert plan_balance(near).moves == ()
    assert plan_balance([directory("/a", {"x": 1})]).moves == ()
    assert plan_balance([]).moves == ()
    assert plan_balance([directory("/a", {"only": 100}), directory("/b", {})]).moves == ()


@given(st.lists(st.lists(st.integers(0, 1000), max_size=8), min_size=1, max_size=4))
def test_no_plan_makes_it_worse_or_moves_a_replica_twice(sizes: list[list[int]]) -> None:
    described = [
        directory(f"/{number}", {f"t{number}-{index}": size for index, size in enumerate(of_it)}, total=10_000)
        for number, of_it in enumerate(sizes)
    ]
    balance = plan_balance(described)
    before, after = ([getattr(use, when) for use in balance.uses] for when in ("before", "after"))
    assert max(after) - min(after) <= max(before) - min(before)
    assert sum(after) == sum(before)
    moved = [move.topic_partition for move in balance.moves]
    assert len(set(moved)) == len(moved)
    assert all(move.from_dir != move.to_dir for move in balance.moves)
