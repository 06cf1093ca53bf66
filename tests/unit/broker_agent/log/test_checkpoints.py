"""Formats of checkpoint files, and their atomic replacement."""

from random import Random

import pytest

from broker_agent.log import checkpoints
from broker_agent.log.checkpoints import MalformedCheckpointError, MetaProperties
from broker_agent.log.epoch_history import EpochEntry
from cluster.model.broker import BrokerId, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from simulator.disk import SimulatedDisk
from tests.contract.log_worlds import TestClock


@pytest.mark.rule("R9.1")
def test_offset_checkpoints_have_a_version_a_count_and_one_line_each() -> None:
    offsets = {TopicPartition("b", 0): Offset(7), TopicPartition("a-x", 10): Offset(0)}
    content = checkpoints.encode_offsets(offsets)
    assert content == b"0\n2\na-x 10 0\nb 0 7\n"
    assert checkpoints.decode_offsets(content) == offsets


@pytest.mark.rule("R9.2")
def test_epoch_checkpoints_have_one_line_for_each_epoch() -> None:
    entries = [EpochEntry(LeaderEpoch(1), Offset(0)), EpochEntry(LeaderEpoch(4), Offset(30))]
    content = checkpoints.encode_epochs(entries)
    assert content == b"0\n2\n1 0\n4 30\n"
    assert checkpoints.decode_epochs(content) == entries


@pytest.mark.rule("R9.3")
def test_partition_metadata_holds_the_topic_id() -> None:
    content = checkpoints.encode_partition_metadata(TopicId("AbCdEfGhIjKlMnOpQrStUv"))
    assert content == b"version: 0\ntopic_id: AbCdEfGhIjKlMnOpQrStUv"
    assert checkpoints.decode_partition_metadata(content) == "AbCdEfGhIjKlMnOpQrStUv"


@pytest.mark.rule("R1.3")
def test_meta_properties_may_have_comments_as_other_tools_write_them() -> None:
    written = checkpoints.encode_meta_properties(MetaProperties(BrokerId(3), "c"))
    for content in (written, b"#\n#Fri Nov 20 2026\ncluster.id=c\nversion=0\nbroker.id=3\n"):
        assert checkpoints.decode_meta_properties(content) == MetaProperties(BrokerId(3), "c")


@pytest.mark.rule("R9.7")
@pytest.mark.parametrize("content", [None, b""])
def test_an_empty_or_missing_file_has_no_entries(content: bytes | None) -> None:
    assert checkpoints.decode_offsets(content) == {}
    assert checkpoints.decode_epochs(content) == []
    assert checkpoints.decode_partition_metadata(content) is None
    assert checkpoints.decode_meta_properties(content) is None


@pytest.mark.rule("R9.7")
@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n",
        b"0\nx\n",
        b"0\n2\na 0 1\n",
        b"0\n0\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 1 2\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na  0 1\n",
        b"\xff\xfe",
    ],
)
def test_anything_else_is_an_error(content: bytes) -> None:
    with pytest.raises(MalformedCheckpointError):
        checkpoints.decode_offsets(content)


@pytest.mark.rule("R9.7", "R9.10")
@pytest.mark.parametrize("content", [b"0\n1\n-1 0\n", b"0\n1\n1 -5\n", b"0\n1\n1 0 7\n", b"1\n0\n"])
def test_an_epoch_checkpoint_has_neither_negative_epochs_nor_offsets(content: bytes) -> None:
    with pytest.raises(MalformedCheckpointError):
        checkpoints.decode_epochs(content)


@pytest.mark.rule("R9.6")
@pytest.mark.parametrize("seed", range(20))
def test_a_crash_after_a_write_finds_the_new_content_whole(seed: int) -> None:
    disk = SimulatedDisk(TestClock(), Random(seed))
    disk.make_directory("/d")
    for content in (b"first", b"second and longer"):
        checkpoints.write_atomically(disk, "/d", "c", content)
        disk.lose_power()
        assert disk.read_file("/d/c") == content
    disk.open_file("/d/c.tmp").append([b"left by a crash"])
    checkpoints.write_atomically(disk, "/d", "c", b"third")
    assert disk.read_file("/d/c") == b"third"
