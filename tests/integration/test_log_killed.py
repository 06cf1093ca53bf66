"""kill -9 in the middle of appends: whatever was reported as appended is there afterwards."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.model.errors import StartupError
from tests.contract.log_worlds import TP, FileWorld, Node, check_invariants, extents

APPENDER = """
import asyncio, sys
from broker_agent.log.config import LogConfig
from tests.contract.log_worlds import FileWorld, Node, fill

async def main():
    node = Node(FileWorld(), sys.argv[1], config=LogConfig(segment_bytes=20_000))
    await node.start()
    log = await node.log()
    while True:
        fill(log, log.log_end_offset // 1000, count=10, size=700)
        print(log.log_end_offset, flush=True)
        if log.log_end_offset % 500 == 0:
            await log.flush()
            await node.logs.write_recovery_points()

asyncio.run(main())
"""


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.real
@pytest.mark.rule("R9.15", "R9.5", "R1.17")
def test_nothing_that_was_appended_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    directory = str(tmp_path / "logs")
    command = [sys.executable, "-c", APPENDER, directory]
    appender = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        reported = read_until(appender, 3000)
        with pytest.raises(StartupError, match="used by another process"):
            asyncio.run(Node(FileWorld(), directory).start())
    finally:
        appender.kill()
        rest, _ = appender.communicate()
    # The kill may have cut the last line short; a number that ends in 0 may then be smaller, never larger.
    reported = max([reported, *(int(line) for line in rest.splitlines() if line.endswith("0"))])
    asyncio.run(check_recovered(directory, reported))


async def check_recovered(directory: str, reported: int) -> None:
    node = Node(FileWorld(), directory)
    await node.start()
    log = node.logs.get(TP)
    assert log is not None
    assert log.log_end_offset >= reported
    assert extents(log) == [(at, at + 9, at // 1000) for at in range(0, log.log_end_offset, 10)]
    check_invariants(log)
    await node.stop()


def read_until(appender: "subprocess.Popen[str]", offset: int) -> int:
    assert appender.stdout is not None
    return next(int(line) for line in appender.stdout if int(line) >= offset)
