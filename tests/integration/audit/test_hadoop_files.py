"""Sealed segments read by Spark's own file source, from a URL, by the command. test_audit_job.py has the same in a
session that it shares.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.audit.test_audit_command import run
from tests.kafka.logs import DELETION, copy_cluster
from tests.unit.audit.test_changed_files import OLD, write_run

pytestmark = [pytest.mark.real, pytest.mark.deep]
TORN = "has 6 bytes and no complete line"


def write_logs_of_both(folder: Path) -> Callable[[], None]:
    """Klamm's and Kafka's, in folders that have a space in their names; returns what writes a segment more, and a torn
    one.
    """
    recording = "3.9.1-trace"
    copy_cluster(recording, folder / "of kafka", DELETION[recording])
    *first, last = write_run(folder / "own", "broker-1", OLD)
    assert len(first) == 2
    later = last.read_bytes()
    last.unlink()

    def write_more() -> None:
        last.write_bytes(later)
        (folder / "own" / f"broker-2-{OLD}-{0:020}.jsonl").write_bytes(b'{"v":2')

    return write_more


def test_files_of_a_url_are_read_once_each_and_checked_like_local_ones(tmp_path: Path) -> None:
    """In several batches, and again with one more."""
    logs, output = tmp_path / "logs", tmp_path / "output"
    write_more = write_logs_of_both(logs)
    arguments = ["run", "--once", "--log-dir", logs.as_uri(), "--output", str(output), "-o", "json"]
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    before = json.loads(done.stdout)
    assert (before["verdict"], before["incarnations"]) == ("clean", 4)
    write_more()
    done = run(*arguments)
    after = json.loads(done.stdout)
    assert (done.returncode, after["records"]) == (4, before["records"] + 5)
    assert [gap["why"] for gap in after["incomplete"]] == [TORN]
