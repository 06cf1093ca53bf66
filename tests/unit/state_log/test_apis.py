"""What every process answers about its own state-change log, on the files that it writes."""

from pathlib import Path

from cluster.requests.cluster import DescribeLogHeadsRequest, LogHead, ReadStateChangesRequest
from state_log.apis import state_log_apis
from state_log.reader import complete_lines, find_segments
from state_log.record import CHAIN_START, Witness, line_digest
from state_log.writer import boot_id
from tests.unit.state_log.test_writer import CHANGE, Clock, open_log


async def test_the_lines_of_the_log_are_read_as_they_stand_in_its_files(tmp_path: Path) -> None:
    log = open_log(tmp_path, Clock())
    [read] = [api for api in state_log_apis(log) if api.name == "ReadStateChanges"]
    log.append([CHANGE, CHANGE])
    response = await read.handler(ReadStateChangesRequest("t", 0))
    lines = [line for path in find_segments([tmp_path]) for line in complete_lines(path)]
    assert (list(response.lines), response.truncated) == (lines, False)  # type: ignore[attr-defined]
    assert len(lines) == 2
    assert (await read.handler(ReadStateChangesRequest("u", -1))).lines == ()  # type: ignore[attr-defined]


async def test_the_head_counts_what_was_appended_even_where_it_could_not_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    log = open_log(folder, Clock())
    [describe] = [api for api in state_log_apis(log) if api.name == "DescribeLogHeads"]

    async def head() -> LogHead:
        [found] = (await describe.handler(DescribeLogHeadsRequest())).heads  # type: ignore[attr-defined]
        assert isinstance(found, LogHead)
        return found

    began = await head()
    assert (began.node, began.incarnation, began.next_seq, began.digest) == (log.node, log.incarnation, 0, CHAIN_START)
    assert began.boot_id == boot_id()
    log.append([CHANGE, CHANGE])
    [segment] = find_segments([folder])
    assert (await head()).digest == line_digest(list(complete_lines(segment))[-1])
    log.close()
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("no folder")
    log.append([CHANGE])
    assert (log.failures, (await head()).next_seq) == (1, 3)


async def test_a_run_without_records_answers_the_head_of_the_run_before_as_well(tmp_path: Path) -> None:
    former = Witness("broker-1", "1795356180123.1", 7, "ab" * 32)
    log = open_log(tmp_path, Clock(), former=former)
    [describe] = [api for api in state_log_apis(log) if api.name == "DescribeLogHeads"]
    own, before = (await describe.handler(DescribeLogHeadsRequest())).heads  # type: ignore[attr-defined]
    assert (own.incarnation, own.flushed_seq) == (log.incarnation, -1)
    assert (before.incarnation, before.next_seq, before.digest) == (former.incarnation, 8, former.digest)
    assert (before.flushed_seq, before.flushed_digest) == (7, former.digest)
    log.append([CHANGE])
    log.sync()
    [only] = (await describe.handler(DescribeLogHeadsRequest())).heads  # type: ignore[attr-defined]
    assert (only.incarnation, only.flushed_seq) == (log.incarnation, 1)
