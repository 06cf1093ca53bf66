"""Sealed segments read by Spark's own file source, from a URL."""

import json
from pathlib import Path

import pytest

from tests.integration.audit.test_audit_command import run
from tests.kafka.logs import DELETION, copy_cluster
from tests.unit.audit.test_changed_files import OLD, write_run


@pytest.mark.real
def test_files_of_a_url_are_read_once_each_and_checked_like_local_ones(tmp_path: Path) -> None:
    """Klamm's and Kafka's, in folders that have a space in their names, in several batches, and again with one more."""
    recording, logs, output = "3.9.1-trace", tmp_path / "logs", tmp_path / "output"
    copy_cluster(recording, logs / "of kafka", DELETION[recording])
    *first, last = write_run(logs / "own", "broker-1", OLD)
    later = last.read_bytes()
    last.unlink()
    arguments = ["run", "--once", "--log-dir", logs.as_uri(), "--output", str(output), "-o", "json"]
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    before = json.loads(done.stdout)
    assert (before["verdict"], before["incarnations"]) == ("clean", 4)
    last.write_bytes(later)
    (logs / "own" / f"broker-2-{OLD}-{0:020}.jsonl").write_bytes(b'{"v":2')
    done = run(*arguments)
    after = json.loads(done.stdout)
    assert (done.returncode, after["records"]) == (4, before["records"] + 5)
    assert [gap["why"] for gap in after["incomplete"]] == ["has 6 bytes and no complete line"]
    assert len(first) == 2
