"""Our encoding of ZooKeeper's requests, against kazoo's own where kazoo has one, and against hand-made answers."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization
from kazoo.protocol.states import ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from cluster.zookeeper.armed_watches import MAX_REQUEST_BYTES, Watches, chunks_by_size
from cluster.zookeeper.kazoo_requests import (
    GET_CHILDREN,
    GET_DATA,
    AddWatch,
    ErrorAnswer,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    RemoveWatches,
    SetWatches,
    SetWatches2,
)
from cluster.zookeeper.port import Check, Create, Delete, Op, OpResult, SetData, Stat, WatchKind, ZkError, Znode

paths = st.from_regex(r"(/[a-zäß0-9_.-]{1,12}){1,4}", fullmatch=True)
data = st.binary(min_size=1, max_size=50)
versions = st.integers(-1, 2**31 - 1)
operations: st.SearchStrategy[Op] = st.one_of(
    st.builds(Check, paths, versions),
    st.builds(Create, paths, data, st.booleans(), st.booleans()),
    st.builds(SetData, paths, data, versions),
    st.builds(Delete, paths, versions),
)


def nothing_else(_path: str) -> bool:
    """No other watch is being armed."""
    return False


def kazoo_operation(op: Op, chroot: str):  # type: ignore[no-untyped-def]
    match op:
        case Check():
            return serialization.CheckVersion(chroot + op.path, op.version)
        case Create():
            flags = int(op.ephemeral) + 2 * int(op.sequential)
            return serialization.Create2(chroot + op.path, op.data, OPEN_ACL_UNSAFE, flags)
        case SetData():
            return serialization.SetData(chroot + op.path, op.data, op.version)
        case Delete():
            return serialization.Delete(chroot + op.path, op.version)


@given(st.lists(operations, max_size=6), st.sampled_from(["", "/chroot"]))
def test_a_transaction_is_encoded_as_kazoo_does(ops: list[Op], chroot: str) -> None:
    expected = serialization.Transaction([kazoo_operation(op, chroot) for op in ops])
    assert Multi(ops, chroot).serialize() == bytes(expected.serialize())


@given(paths, st.booleans())
def test_single_reads_are_encoded_as_kazoo_does(path: str, watch: bool) -> None:
    assert Exists(path, watch).serialize() == bytes(serialization.Exists(path, watch).serialize())
    assert GetData(path).serialize() == bytes(serialization.GetData(path, False).serialize())
    assert GetChildren(path, watch).serialize() == bytes(serialization.GetChildren(path, watch).serialize())


def test_a_create_without_data_sends_null() -> None:
    expected = serialization.Transaction([serialization.Create2("/a", None, OPEN_ACL_UNSAFE, 0)])
    assert Multi([Create("/a")], "").serialize() == bytes(expected.serialize())


ZNODE_STAT = ZnodeStat(11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21)
STAT = Stat(czxid=11, mzxid=12, version=15, ephemeral_owner=18, ctime=13, mtime=14, num_children=20)
STAT_BYTES = serialization.stat_struct.pack(*ZNODE_STAT)


def result(operation: int, body: bytes, *, done: bool = False) -> bytes:
    return struct.pack("!iBi", operation, done, -1 if done else 0) + body


END = result(-1, b"", done=True)


def test_the_results_of_a_multi_read_are_decoded_each_by_its_kind() -> None:
    answer = (
        b"header"
        + result(GET_DATA, serialization.write_buffer(b"abc") + STAT_BYTES)
        + result(-1, struct.pack("!i", -101))
        + result(GET_DATA, serialization.write_buffer(None) + STAT_BYTES)
        + result(GET_CHILDREN, struct.pack("!i", 2) + serialization.write_string("b") + serialization.write_string("a"))
        + result(GET_CHILDREN, struct.pack("!i", 0))
        + result(GET_DATA, serialization.write_buffer(b"") + STAT_BYTES)
        + result(-1, struct.pack("!i", -102))
        + END
    )
    decoded = MultiRead([], GET_DATA).deserialize(answer, len(b"header"))
    empty = Znode(b"", STAT)
    assert decoded == [Znode(b"abc", STAT), None, empty, ("a", "b"), (), empty, -102]
    assert MultiRead([], GET_DATA).deserialize(END, 0) == []


def test_the_results_of_a_transaction_are_decoded_in_order() -> None:
    answer = (
        result(13, b"")
        + result(15, serialization.write_string("/a") + STAT_BYTES)
        + result(5, STAT_BYTES)
        + result(2, b"")
        + END
    )
    assert Multi([], "").deserialize(answer, 0) == [
        OpResult(ZkError.OK),
        OpResult(ZkError.OK, "/a", STAT),
        OpResult(ZkError.OK, None, STAT),
        OpResult(ZkError.OK),
    ]


def test_operations_before_the_failed_one_are_reported_as_undone() -> None:
    answer = b"".join(result(-1, struct.pack("!i", code)) for code in (0, -103, -2)) + END
    assert [each.error for each in Multi([], "").deserialize(answer, 0)] == [
        ZkError.RUNTIME_INCONSISTENCY,
        ZkError.BAD_VERSION,
        ZkError.RUNTIME_INCONSISTENCY,
    ]


@given(st.lists(st.text("aä", min_size=1, max_size=4), max_size=50), st.integers(1, 5))
def test_chunks_hold_all_paths_in_order_and_stay_below_the_limit(names: list[str], scale: int) -> None:
    long = ["/" + name * (scale * 10_000) for name in names]
    chunks = list(chunks_by_size(long))
    assert [path for chunk in chunks for path in chunk] == long
    for chunk in chunks:
        assert chunk
        assert len(chunk) == 1 or sum(len(path.encode()) + 4 for path in chunk) <= MAX_REQUEST_BYTES


def test_a_deletion_reported_by_arming_an_absent_node_is_no_news() -> None:
    watches = Watches()
    assert not watches.fired("/absent", WatchKind.DELETED, nothing_else)
    watches.data.add("/present")
    assert watches.fired("/present", WatchKind.DELETED, nothing_else)
    assert watches.data == set()


def armed(*paths: str) -> SetWatches:
    return SetWatches(0, data=paths)


def test_a_watch_that_fired_before_its_arming_was_answered_is_not_armed() -> None:
    watches = Watches()
    watches.fired("/absent", WatchKind.DELETED, nothing_else)
    watches.answered(armed("/absent", "/present"), None)
    assert watches.data == {"/present"}


def test_what_fired_before_an_answer_that_was_lost_does_not_count_for_the_repetition() -> None:
    watches = Watches()
    watches.fired("/late", WatchKind.DELETED, nothing_else)
    assert list(watches.requests(since_zxid=7)) == []
    watches.answered(armed("/late"), None)
    assert watches.fired("/late", WatchKind.DELETED, nothing_else), (
        "a real deletion was taken for the echo of an arming"
    )


def test_all_watches_are_put_back_with_the_time_since_when_news_are_due() -> None:
    watches = Watches()
    watches.answered(armed("/a", "/b"), None)
    watches.answered(Exists("/absent", watch=True), ErrorAnswer(-101))
    watches.answered(GetChildren("/parent", watch=True), ())
    expected = [
        SetWatches(7, data=["/a", "/b"]),
        SetWatches(7, exists=["/absent"]),
        SetWatches(7, children=["/parent"]),
    ]
    assert [request.body for request in watches.requests(since_zxid=7)] == [request.body for request in expected]


def test_a_server_before_3_9_answers_creates_without_their_stat() -> None:
    # What ZooKeeper 3.8.0 responded to a create with stat and a set-data.
    response = bytes.fromhex(
        "000000010000000000000000162f626231373935343133373536313531333832383334000000050000000000000000010000035b00000001"
        "0000035b000001a206ffc8f8000001a206ffc8f800000001000000000000000000000000000000000000000100000000000000010000035b"
        "ffffffff01ffffffff"
    )
    stat = Stat(0x10000035B, 0x10000035B, 1, 0, 0x1A206FFC8F8, 0x1A206FFC8F8, 0)
    assert Multi([], "").deserialize(response, 0) == [
        OpResult(ZkError.OK, "/bb1795413756151382834"),
        OpResult(ZkError.OK, stat=stat),
    ]


def below(path: str) -> Watches:
    """Watches with one of a subtree."""
    watches = Watches()
    watches.answered(AddWatch(path), None)
    return watches


def test_an_event_below_a_watched_subtree_uses_up_no_watch_that_is_not_there() -> None:
    watches = below("/t")
    assert watches.is_in_subtree("/t/a/b")
    assert not watches.is_in_subtree("/tt")
    for kind in (WatchKind.CREATED, WatchKind.CHANGED, WatchKind.DELETED):
        assert not watches.fired("/t/a", kind, nothing_else)
    watches.answered(SetWatches(0, data=["/t/a"]), None)
    assert watches.data == {"/t/a"}
    assert watches.fired("/t/a", WatchKind.CHANGED, nothing_else)
    assert watches.data == set()
    watches.children.add("/t/a")
    assert not watches.fired("/t/a", WatchKind.CHANGED, nothing_else)
    assert watches.fired("/t/a", WatchKind.DELETED, nothing_else)
    assert watches.children == set()


def test_an_event_while_a_watch_is_being_armed_below_a_subtree_counts_for_both() -> None:
    """It may be that of either, so it is passed on, and the watch is taken for armed."""
    watches = below("/t")
    assert watches.fired("/t/a", WatchKind.CHANGED, lambda path: path == "/t/a")
    watches.answered(SetWatches(0, data=["/t/a"]), None)
    assert watches.data == {"/t/a"}
    # The deletion that the arming of a missing znode reports is no news; then it was created, with the watch in place.
    assert not watches.fired("/t/b", WatchKind.DELETED, lambda _: True)
    assert watches.fired("/t/b", WatchKind.CREATED, lambda _: True)
    watches.answered(SetWatches(0, data=["/t/b"]), None)
    assert "/t/b" in watches.data


def test_watched_subtrees_are_restored_in_a_request_of_their_own() -> None:
    watches = below("/t")
    watches.data.add("/t/a")
    first, second = watches.requests(7)
    assert isinstance(first, SetWatches)
    assert isinstance(second, SetWatches2)
    assert second.serialize() == (b"\0\0\0\0\0\0\0\7" + b"\0\0\0\0" * 4 + b"\0\0\0\1" + b"\0\0\0\2/t")
    watches.answered(RemoveWatches("/t"), None)
    assert [type(request) for request in watches.requests(7)] == [SetWatches]
