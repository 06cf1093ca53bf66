"""A log on a real file system of one megabyte, which is filled, by records and by others, and freed."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker_agent.log.config import LogConfig
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import FullDirectoryError
from tests.contract.log_worlds import TP, FileWorld, Node, batch, check_invariants, extents, fetched

SEGMENTS = LogConfig(segment_bytes=60_000, index_interval_bytes=500, file_delete_delay_ms=0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "klamm-full", str(tmp_path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


async def fill(node: Node) -> int:
    """Append until there is no room; returns how many batches were acknowledged."""
    log = await node.log()
    with suppress(FullDirectoryError):
        while True:
            log.append_as_leader(batch(1, size=997), LeaderEpoch(0), 1)
    return log.log_end_offset


@pytest.mark.rule("FD-9", "FD-10", "R10.5")
@pytest.mark.parametrize("stops_cleanly", [False, True])
async def test_everything_acknowledged_is_there_after_a_restart_on_a_full_disk(disk: Path, stops_cleanly: bool) -> None:
    node = Node(FileWorld(), str(disk / "a"), config=SEGMENTS)
    await node.start()
    acknowledged = await fill(node)
    assert acknowledged > 700
    log = node.logs.get(TP)
    assert log is not None
    check_invariants(log)
    log.set_high_watermark(Offset(acknowledged))
    # Another program takes the rest.
    with (disk / "other").open("wb", buffering=0) as other, suppress(OSError):
        while other.write(bytes(512)):
            pass
    with pytest.raises(FullDirectoryError):
        log.append_as_follower(fetched(acknowledged, size=50_000), LeaderEpoch(0))
    assert log.log_end_offset == acknowledged
    assert len(log.read(Offset(0), 1 << 20, Offset(acknowledged), at_least_one=True)) > 50_000
    if stops_cleanly:
        await node.stop()
        await node.start()
    else:
        await node.crash_and_restart()
    assert node.failures == []
    found = node.logs.get(TP)
    assert found is not None
    check_invariants(found)
    assert [base for base, _, _ in extents(found)] == list(range(acknowledged))
    assert not found.takes_records
    found.set_high_watermark(Offset(acknowledged))
    found.raise_log_start_offset(Offset(acknowledged - 10))
    assert found.enforce_retention(1) > 0
    await node.logs.remove_deleted()
    (disk / "other").unlink()
    await node.logs.directories[str(disk / "a")].measure_room()
    found.append_as_leader(batch(1, size=997), LeaderEpoch(0), 1)
    assert found.log_end_offset == acknowledged + 1
