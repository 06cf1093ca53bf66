"""Outputs that were tampered with or copied in part: every command names the file and what to do, on one line."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import RECORDS_TABLE
from tests.audits.log_audits import FolderAudit
from tests.audits.older_outputs import BUCKETS_2, make_version, make_version_2
from tests.audits.outputs import leave_checkpoint
from tests.audits.state_change_histories import draw, write_logs

COMMANDS = {
    "run": ("run", "--once"),
    "report": ("report",),
    "query": ("query", "SELECT * FROM records"),
    "compact": ("compact",),
    "rebuild": ("rebuild",),
}
ALL = tuple(COMMANDS)
BUT_QUERY = ("run", "report", "compact", "rebuild")
WITH_STATE = ("run", "report", "compact")
BUCKETS = 3
"""Commands look at each bucket: with few of them they take less time."""


class Damage(NamedTuple):
    """`files`: the glob of those of which the last one is damaged. `named`: what messages of these commands have,
    beside the remedy. The other commands do their work.
    """

    files: str
    change: Callable[[Path], object]
    commands: Sequence[str]
    named: str
    remedy: str = "audit into a new --output"
    buckets: int = BUCKETS


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def garbled(path: Path) -> None:
    """The size stays."""
    path.write_bytes(b"\xff" * path.stat().st_size)


def garbled_page(path: Path) -> None:
    """Only the content of a column, so that the file seems to be whole."""
    metadata = pyarrow.parquet.ParquetFile(path).metadata.row_group(0)
    seq = next(metadata.column(n) for n in range(metadata.num_columns) if metadata.column(n).path_in_schema == "seq")
    data, end = bytearray(path.read_bytes()), seq.file_offset or seq.data_page_offset
    first = min(offset for offset in (seq.dictionary_page_offset, seq.data_page_offset, end) if offset)
    data[first + seq.total_compressed_size - 12 : first + seq.total_compressed_size] = b"\xff" * 12
    path.write_bytes(data)


def copied(path: Path) -> None:
    """One file more than there should be."""
    shutil.copy(path, path.with_name(path.name.replace(".parquet", "7.parquet")))


DAMAGE = {
    "a commit is missing": Damage("commits/*", Path.unlink, ALL, "commits/2.json: is missing"),
    "a commit was cut short": Damage("commits/*", shortened, ALL, "commits/2.json: is not a commit"),
    "a commit is empty": Damage("commits/*", emptied, ALL, "commits/2.json: is not a commit"),
    "a commit is of a newer klamm": Damage(
        "", lambda top: make_version(top, 9), ALL, "commits/2.json: is of version 9", "use the newer klamm"
    ),
    "a commit is of an older klamm": Damage("", make_version_2, (), "", buckets=BUCKETS_2),
    "all commits are missing": Damage(
        "", lambda top: shutil.rmtree(top / "commits"), ALL, "commits/2.json: is missing"
    ),
    "state of partitions is missing": Damage(
        "state/[0-2]/*", Path.unlink, WITH_STATE, "/state/", "klamm audit rebuild --output"
    ),
    "state of partitions was cut short": Damage(
        "state/[0-2]/*", shortened, WITH_STATE, "/state/", "klamm audit rebuild --output"
    ),
    "state of partitions is another": Damage(
        "state/[0-2]/*", garbled, WITH_STATE, "/state/", "klamm audit rebuild --output"
    ),
    "state of the cluster is missing": Damage(f"state/{BUCKETS}/*", Path.unlink, BUT_QUERY, f"state/{BUCKETS}/"),
    "state of the cluster was cut short": Damage(f"state/{BUCKETS}/*", shortened, BUT_QUERY, f"state/{BUCKETS}/"),
    "a file of a table is missing": Damage("tables/records/*/*", Path.unlink, ALL, "tables/records: has"),
    "a file of a table was cut short": Damage("tables/records/*/*", shortened, ALL, "tables/records: has"),
    "a file of a table is there twice": Damage("tables/timelines/*/*", copied, ALL, "tables/timelines: has"),
    "a table is missing": Damage(
        "", lambda top: shutil.rmtree(top / "tables/topics"), ALL, "tables/topics: has 0 files"
    ),
    "a file of a table is another": Damage(
        "tables/records/*/*", garbled, ("report", "query", "compact", "rebuild"), "tables/records/"
    ),
    "a page of a table is another": Damage(
        "tables/records/*/*", garbled_page, ("report", "query", "compact", "rebuild"), "tables/records/"
    ),
    "the checkpoint is missing": Damage(
        "", lambda top: shutil.rmtree(top / "checkpoint"), BUT_QUERY, "checkpoint: does not have"
    ),
    "the checkpoint is an older one": Damage(
        "checkpoint/offsets/*",
        lambda path: path.rename(path.with_name("1")),
        BUT_QUERY,
        "checkpoint: does not have batch 2",
    ),
    "the heads are no heads": Damage(
        "", lambda top: (top / "heads.json").write_text("{"), ("run", "report"), "heads.json"
    ),
}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `logs`, and an output of each number of buckets."""
    top: Path = tmp_path_factory.mktemp("audited")
    write_logs(draw(21, steps=150, partitions=6).logs, top / "logs")
    for buckets in (BUCKETS, BUCKETS_2):
        output = top / str(buckets)
        FolderAudit(top / "logs", output, buckets=buckets).read(20_000, 3)
        leave_checkpoint(output)
        assert OutputFolder(output).table_files(RECORDS_TABLE)
    return top


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_on_one_line_with_what_to_do(name: str, audited: Path, tmp_path: Path) -> None:
    damage = DAMAGE[name]
    for command in ALL:
        # Without damage `run` would start Spark.
        if command in damage.commands or command != "run":
            output = Path(shutil.copytree(audited / str(damage.buckets), tmp_path / command))
            damage.change(sorted(output.glob(damage.files))[-1] if damage.files else output)
            check_command(command, output, audited / "logs", damage)


def check_command(command: str, output: Path, logs: Path, damage: Damage) -> None:
    first, *further = COMMANDS[command]
    options = ["--log-dir", str(logs)] if command == "run" else []
    result = CliRunner().invoke(app, [first, "--output", str(output), *options, *further])
    assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
    if command not in damage.commands:
        assert result.exit_code in ({0, 3, 4} if command == "report" else {0}), (command, result.output)
        return
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), (command, result.output)
    assert damage.named in result.stderr, command
    assert damage.remedy in result.stderr or damage.named == "heads.json", (command, result.stderr)
