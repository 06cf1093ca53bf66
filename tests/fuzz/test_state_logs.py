"""State-change logs with lines that are nearly right: everything that reads them gets through."""

import json
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from audit.batches.batch import check_rows, next_commit
from audit.reading.log_files import Range
from audit.reading.source import read_ranges
from audit.report.report import read_findings, read_result
from audit.storage.commits import BUCKETS, Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION
from audit.storage.table_schemas import QUARANTINE_TABLE
from simulator.cluster import simulate
from state_log.reader import read_lines
from state_log.record import MalformedLine, decode_line
from state_log.writer import SEGMENT_SUFFIX
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import start_cluster
from tests.fuzz.commands import run_command
from tests.fuzz.damage import damaged, documents
from tests.fuzz.messages import Draw

SELECTIONS = (("", -1), ("t", -1), ("t", 0), ("t", 2**31 - 1), ("\0", -(2**31)))


@cache
def sound_lines() -> tuple[bytes, ...]:
    """The first lines of a controller and of an agent in a cluster with two topics."""

    async def main() -> tuple[bytes, ...]:
        cluster = await start_cluster()
        logs = [cluster.nodes[number].incarnations[-1].log.lines for number in (0, 1)]
        return tuple(line for lines in logs for line in lines[:12])

    return simulate(main)


@cache
def decoded_lines() -> list[object]:
    return [json.loads(line) for line in sound_lines()]


@st.composite
def logs(draw: Draw) -> bytes:
    """A segment with some lines that are not as they were, some of them records all the same."""
    lines = list(sound_lines())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 1))] = [draw(documents(decoded_lines()))]
    whole = b"\n".join(lines) + b"\n"
    return draw(damaged(whole)) if draw(st.integers(0, 5)) == 0 else whole


@fuzz(examples=30)
@given(logs())
@example(b'{"topic":"t\xff"}\n')
@example(b'{"topic":' + b"[" * 5000 + b"\n")
def test_state_change_lines(content: bytes) -> None:
    count_case("state change lines")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"controller-1001{SEGMENT_SUFFIX}")
        path.write_bytes(content)
        for topic, partition in SELECTIONS:
            response = read_lines(Path(folder), topic, partition)
            assert all(line in content for line in response.lines)
        for form in ("table", "json", "yaml"):
            run_command(["story", "t-0", "--log-dir", folder, "-o", form])
        run_command(["audit", "verify", "--log-dir", folder])
        read_as_audit(path, content)


def read_as_audit(path: Path, content: bytes) -> None:
    """What the Spark job does with the lines, in two batches."""
    end = content.rfind(b"\n") + 1
    middle = content.rfind(b"\n", 0, end // 2) + 1
    with tempfile.TemporaryDirectory() as folder:
        output, commit = OutputFolder(Path(folder)), Commit(VERSION, -1, "", {})
        for part in (Range(path.name, path, 0, middle), Range(path.name, path, middle, end)):
            rows = [row for of_task in read_ranges([part], BUCKETS) for row in of_task.to_pylist()]
            commit = next_commit(commit, list(check_rows(output, commit, rows)))
            output.commit(commit)
        lines = [line for line in content[:end].split(b"\n") if line]
        assert commit.records + commit.quarantined == len(lines)
        assert commit.quarantined == len(list(output.rows(QUARANTINE_TABLE)))
        result = read_result(Path(folder))
        assert (result.verdict == "clean") <= (not commit.quarantined and bool(commit.records))
        assert len(read_findings(Path(folder), 10)) <= 10


@fuzz(examples=300)
@given(documents(decoded_lines()) | st.binary(max_size=60))
@example(b'{"kind":"%b"}' % (b"a" * 5000))
def test_single_state_change_lines(line: bytes) -> None:
    count_case("single state change lines")
    record = decode_line(line)
    if isinstance(record, MalformedLine):
        assert len(record.why) < 1000
