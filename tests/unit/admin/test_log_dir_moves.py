"""Where the replicas of a broker are, compared with where they are to be."""

from admin.moving.log_dir_moves import PlannedDirMove, UnfinishedMove, compare_dirs, describe_copying, planned_moves
from admin.moving.replica_moves import Arrival, with_directories
from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.log_dirs import DescribedLogDir, DescribedLogDirPartition, DescribedLogDirTopic

ONE, TP, OTHER = BrokerId(1), TopicPartition("t", 0), TopicPartition("t", 1)


def directory(path: str, *replicas: tuple[int, int, int, bool]) -> DescribedLogDir:
    partitions = tuple(DescribedLogDirPartition(*replica) for replica in replicas)
    return DescribedLogDir(ErrorCode.NONE, path, (DescribedLogDirTopic("t", partitions),))


def test_each_replica_that_is_not_yet_there_is_named_with_how_far_its_copy_is() -> None:
    described = [directory("/a", (0, 100, 0, False), (1, 7, 0, False)), directory("/b", (0, 40, 6, True))]
    copied = UnfinishedMove(ONE, TP, "/b", "/a", 40, 100, 6)
    assert compare_dirs(ONE, {TP: "/b", OTHER: "/a/"}, described) == [copied]
    assert compare_dirs(ONE, {OTHER: "/b", TopicPartition("u", 0): "/b"}, described) == [
        UnfinishedMove(ONE, OTHER, "/b", "/a"),
        UnfinishedMove(ONE, TopicPartition("u", 0), "/b", ""),
    ]
    assert describe_copying([copied]) == "40 of 100 bytes of the others copied"


def test_a_replica_is_in_place_unless_it_is_being_moved_away() -> None:
    described = [directory("/a", (0, 100, 0, False), (1, 7, 0, False)), directory("/b", (0, 40, 6, True))]
    wanted = {TP: "/a", OTHER: "/a/", TopicPartition("t", 2): "/a"}
    assert planned_moves(ONE, wanted, described) == [
        (PlannedDirMove(ONE, TP, 100, "/a", "/a"), False),
        (PlannedDirMove(ONE, OTHER, 7, "/a", "/a/"), True),
    ]
    assert planned_moves(ONE, {OTHER: "/b"}, described) == [(PlannedDirMove(ONE, OTHER, 7, "/a", "/b"), False)]


def test_a_reassignment_is_completed_only_when_its_log_directories_are() -> None:
    arrivals = [Arrival(TP, (ONE,), "completed", ""), Arrival(OTHER, (ONE,), "stuck", "why")]
    copied = UnfinishedMove(ONE, TP, "/b", "/a", 40, 100, 6)
    assert with_directories(arrivals, []) == arrivals
    [first, second] = with_directories(arrivals, [copied, UnfinishedMove(ONE, OTHER, "/b", "")])
    assert (first.state, first.detail) == ("in progress", "broker 1 is in /a, being copied to /b")
    assert second == arrivals[1]
    [elsewhere] = with_directories(arrivals[:1], [UnfinishedMove(ONE, TP, "/b", "")])
    assert (elsewhere.state, elsewhere.detail) == ("different", "broker 1 has no replica, not in /b")
