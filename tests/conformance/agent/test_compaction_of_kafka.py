"""The segments that Apache Kafka 3.9.1 compacted, compacted by klamm: the same records stay, in the same batches."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from admin.consuming.record_batches import Record, decode_records
from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import BatchHeader, walk
from cluster.model.broker import LeaderEpoch, Offset
from tests.brokers.compacted_logs import clean
from tests.contract.log_worlds import TP, FileWorld, Node, check_invariants
from tests.kafka.compaction import DELETE_RETENTION_MS, RECORDED, SEGMENT_BYTES

CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=SEGMENT_BYTES,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=DELETE_RETENTION_MS,
)


def about(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / name / "about.json").read_text())
    return found


def segments_in(folder: Path) -> dict[int, bytes]:
    """Base offset -> content, of segments with batches."""
    found = {int(path.stem): path.read_bytes() for path in sorted(folder.glob("*.log"))}
    return {base: content for base, content in found.items() if content}


def headers(content: bytes) -> list[BatchHeader]:
    """The headers; what depends on the time of the cleaning and on the encoder is left out."""
    varying = {"length": 0, "crc": 0, "base_timestamp": 0}
    return [header._replace(**varying) for _, header in walk(content)]


def records(content: bytes) -> list[Record]:
    """Decode batch after batch: some are of control, some are empty."""
    found: list[Record] = []
    for position, header in walk(content):
        found += decode_records(content[position : position + header.size], Offset(header.base_offset)).records
    return found


def compare(log: PartitionLog, name: str) -> None:
    expected, found = segments_in(RECORDED / name), segments_in(Path(log.path))
    assert {base: headers(content) for base, content in found.items()} == {
        base: headers(content) for base, content in expected.items()
    }
    assert [records(content) for content in found.values()] == [records(content) for content in expected.values()]


def copy_batches(log: PartitionLog, name: str) -> None:
    """Append the batches of a recording from the log end on."""
    for content in segments_in(RECORDED / name).values():
        for position, header in walk(content):
            if header.base_offset >= log.log_end_offset:
                batch = content[position : position + header.size]
                log.append_as_follower(batch, LeaderEpoch(header.leader_epoch))
    log.set_high_watermark(log.log_end_offset)


@pytest.mark.rule("R10.21", "R10.24", "R10.25", "R10.26", "R10.27")
async def test_what_stays_is_what_stayed_in_kafka(tmp_path: Path) -> None:
    root = tmp_path / "a"
    root.mkdir()
    shutil.copytree(RECORDED / "before-1", root / str(TP))
    (root / str(TP) / "about.json").unlink()
    node = Node(FileWorld(), str(root), config=CONFIG)
    await node.start()
    log = node.logs.get(TP)
    assert log is not None
    log.set_high_watermark(log.log_end_offset)
    before = sum(len(records(content)) for content in segments_in(Path(log.path)).values())
    node.clock.at_ms = about("before-1")["at_ms"]
    assert await clean(node)
    assert log.first_dirty_offset == about("after-1")["cleaned_up_to"]
    compare(log, "after-1")
    assert sum(len(records(content)) for content in segments_in(Path(log.path)).values()) < before
    check_invariants(log)
    copy_batches(log, "before-2")
    compare(log, "before-2")
    node.clock.at_ms = about("before-2")["at_ms"]
    assert await clean(node)
    assert log.first_dirty_offset == about("after-2")["cleaned_up_to"]
    compare(log, "after-2")
    check_invariants(log)
