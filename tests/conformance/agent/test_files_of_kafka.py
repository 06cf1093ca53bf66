"""Log files are Kafka's, byte for byte: compared with a log directory written by Apache Kafka 3.9.1."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from broker_agent.log.checkpoints import BOOT_ID, MetaProperties, encode_boot_id
from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.producer_state import decode_snapshot
from broker_agent.log.record_batch import stamp, walk
from cluster.model.broker import BrokerId, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from tests.contract.log_worlds import FileWorld, Node, check_invariants

RECORDED: Final = Path(__file__).parents[2] / "recorded" / "log_directory"
OWNER: Final = MetaProperties(BrokerId(1), "IlNlOFSzSyKyJ-PvBN1TLQ")
WRITTEN: Final = TopicPartition("written-by-kafka", 0)
TOPIC_ID: Final = TopicId((RECORDED / "written-by-kafka-0" / "partition.metadata").read_text()[-22:])
CONFIG: Final = LogConfig(segment_bytes=3000, index_interval_bytes=500)
"""As the topic had it."""


def contents(directory: Path, *suffixes: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.name.endswith(suffixes)}


async def open_copy(tmp_path: Path) -> tuple[Node, PartitionLog]:
    node = Node(FileWorld(), f"{tmp_path}/data", config=CONFIG)
    await node.start(OWNER)
    log = node.logs.get(WRITTEN)
    assert log is not None
    return node, log


@pytest.mark.rule("R9.1", "R9.2", "R9.3", "R9.4", "R9.18", "R10.1")
async def test_a_log_directory_of_kafka_is_served_as_it_is(tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "data")
    node, log = await open_copy(tmp_path)
    assert not node.failures
    assert (log.topic_id, log.log_start_offset, log.log_end_offset, log.recovery_point) == (TOPIC_ID, 0, 160, 160)
    assert log.epoch_entries == ((0, 0),)
    assert await node.logs.read_high_watermarks(f"{tmp_path}/data") == {WRITTEN: 160}
    log.set_high_watermark(Offset(160))
    check_invariants(log)
    first = log.read(Offset(0), 1 << 20, Offset(160), at_least_one=True)
    assert first == (RECORDED / "written-by-kafka-0" / "00000000000000000000.log").read_bytes()
    assert len(log.producers) == 2
    await node.stop()
    indexes = (".index", ".timeindex")
    assert contents(tmp_path / "data" / str(WRITTEN), *indexes) == contents(RECORDED / str(WRITTEN), *indexes)


@pytest.mark.rule("R10.3", "R10.2")
async def test_indexes_that_are_made_anew_are_those_that_kafka_made(tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "data")
    directory = tmp_path / "data" / str(WRITTEN)
    for name in contents(directory, ".index", ".timeindex"):
        (directory / name).unlink()
    node, _ = await open_copy(tmp_path)
    await node.stop()
    assert contents(directory, ".index", ".timeindex") == contents(RECORDED / str(WRITTEN), ".index", ".timeindex")


@pytest.mark.rule("R9.1", "R9.2", "R9.3", "R10.1", "R10.2", "R10.8")
@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_the_same_batches_make_the_same_files_as_kafkas(tmp_path: Path, role: str) -> None:
    kafka = RECORDED / str(WRITTEN)
    node = Node(FileWorld(), f"{tmp_path}/data", config=CONFIG)
    await node.start(OWNER)
    log = await node.logs.get_or_create(WRITTEN, topic_id=TOPIC_ID, is_new=True, config=CONFIG)
    for records in contents(kafka, ".log").values():
        for position, header in walk(records):
            batch = records[position : position + header.size]
            if role == "leader":
                unstamped = b"".join(stamp(batch, Offset(0), LeaderEpoch(-1)))
                log.append_as_leader(unstamped, LeaderEpoch(0), header.max_timestamp)
            else:
                log.append_as_follower(batch, LeaderEpoch(0))
    log.set_high_watermark(log.log_end_offset)
    await node.logs.write_high_watermarks(f"{tmp_path}/data", lambda: {WRITTEN: log.high_watermark})
    await node.stop()
    same = (".log", ".index", ".timeindex", "leader-epoch-checkpoint", "partition.metadata")
    assert contents(tmp_path / "data" / str(WRITTEN), *same) == contents(kafka, *same)
    checkpoints = contents(tmp_path / "data", "-checkpoint")
    assert checkpoints.pop(BOOT_ID) == encode_boot_id("boot")  # Of klamm only.
    assert checkpoints == contents(RECORDED, "-checkpoint")


@pytest.mark.rule("R9.18")
def test_a_snapshot_has_each_producers_last_batch_as_kafkas_has() -> None:
    kafkas = (RECORDED / str(WRITTEN) / "00000000000000000160.snapshot").read_bytes()
    states = decode_snapshot(kafkas)
    assert states is not None
    assert states.encode() == kafkas
