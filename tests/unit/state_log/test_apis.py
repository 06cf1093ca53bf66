"""What every process answers about its own state-change log, on the files that it writes."""

from pathlib import Path

from cluster.requests.cluster import ReadStateChangesRequest
from state_log.apis import state_log_apis
from state_log.reader import complete_lines, find_segments
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
