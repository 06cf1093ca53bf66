"""SQL over the tables: what holds now, nothing that is not committed, and no way out of the tables."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.records.findings import FOUND, WITHDRAWN, AuditFinding
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION
from audit.storage.table_schemas import FINDINGS_TABLE, RECORDS_TABLE, TABLES
from audit.tables.queries import QueryError, describe_tables, run_query
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import table_of
from tests.audits.findings_tables import findings_table


def finding(subject: str, message: str, status: str = FOUND, at_ms: int | None = 0) -> AuditFinding:
    return AuditFinding("rule", subject, message, ("n/i/0",), status, at_ms=at_ms)


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    """Two batches that are committed, and one that is not."""
    folder = OutputFolder(tmp_path / "it's a report")
    batches = [
        [finding("a", "first", at_ms=86_400_000), finding("b", "first"), finding("c", "stays", at_ms=None)],
        [finding("a", "second"), finding("b", "gone", WITHDRAWN)],
        [finding("a", "third")],
    ]
    for number, found in enumerate(batches):
        folder.write_rows(FINDINGS_TABLE, findings_table(found), number, 0)
    record = LoggedStateChange(
        kind=Kind.BROKER, v=2, seq=0, node="n", incarnation="i", at_ms=1_700_000_000_123, isr=(1, 2)
    )
    strange = LoggedStateChange(kind=Kind.BROKER, v=2, seq=1, node="n", incarnation="i", at_ms=(1 << 63) - 1)
    folder.write_rows(RECORDS_TABLE, table_of([record, strange]).drop_columns(["key"]), 0, 16)
    folder.commit(Commit(VERSION, 1, "", {}))
    return folder


def test_a_revised_table_has_the_rows_that_hold_and_raw_has_all(folder: OutputFolder) -> None:
    assert run_query(folder, "SELECT subject, message FROM findings ORDER BY subject").rows == [
        ["a", "second"],
        ["c", "stays"],
    ]
    assert run_query(folder, "SELECT count(*) FROM raw.findings").rows == [[5]]


def test_times_are_readable_and_impossible_ones_are_none(folder: OutputFolder) -> None:
    found = run_query(folder, "SELECT seq, at_time, isr, leader, day FROM records ORDER BY seq").dicts()
    assert found == [
        {"seq": 0, "at_time": "2023-11-14 22:13:20.123", "isr": [1, 2], "leader": None, "day": "2023-11-14"},
        {"seq": 1, "at_time": None, "isr": None, "leader": None, "day": "other"},
    ]


def test_what_json_cannot_say_is_said_otherwise(folder: OutputFolder) -> None:
    sql = "SELECT sum(seq), 1.5, 'nan'::DOUBLE, DATE '2024-01-02', {'a': [1.0]}, 2::HUGEINT, 'x'::BLOB FROM records"
    assert run_query(folder, sql).rows == [[1, 1.5, None, "2024-01-02", {"a": [1]}, 2, "b'x'"]]


def test_all_tables_are_there_even_if_nothing_was_written_to_them(folder: OutputFolder) -> None:
    found = {table.name: (rows, columns) for table, rows, columns in describe_tables(folder)}
    assert list(found) == list(TABLES)
    assert found["findings"][0] == 2
    assert found["broker_sessions"][0] == 0
    for name, (_, columns) in found.items():
        assert set(TABLES[name].schema.names) | {"day"} <= {column for column, _ in columns}
    assert ("at_time", "timestamp") in found["findings"][1]


def test_before_the_first_batch_all_tables_are_empty(tmp_path: Path) -> None:
    assert {rows for _, rows, _ in describe_tables(OutputFolder(tmp_path))} == {0}


REFUSED = [
    "COPY (SELECT 1) TO '{other}'",
    "COPY findings TO '{file}'",
    "SELECT * FROM read_csv('{other}')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM 'https://example.com/x.parquet'",
    "CREATE TABLE x (a INT)",
    "DROP VIEW findings",
    "SET enable_external_access = true",
    "SET allowed_paths = ['/etc/passwd']",
    "ATTACH '{other}' AS x",
    "INSTALL httpfs",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{other}'",
    "SELECT 1; SELECT 2",
    "SELECT nothing FROM findings",
    "not SQL",
    "",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_nothing_but_the_tables_can_be_read_and_nothing_written(folder: OutputFolder, sql: str) -> None:
    other, file = Path(folder.location) / "other.csv", Path(folder.path(folder.table_files(FINDINGS_TABLE)[0].name))
    other.write_text("a,b\n1,2\n")
    before = (other.read_bytes(), file.read_bytes())
    with pytest.raises(QueryError) as raised:
        run_query(folder, sql.format(other=other, file=file))
    assert "\n" not in str(raised.value)
    assert (other.read_bytes(), file.read_bytes()) == before


def ask(folder: OutputFolder, *arguments: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["query", "--output", folder.location, *arguments])
    return ran.exit_code, ran.stdout, ran.stderr


def test_the_command_shows_tables_documents_and_errors(folder: OutputFolder) -> None:
    sql = "SELECT subject, at_time, topic FROM findings ORDER BY subject"
    assert ask(folder, sql) == (
        0,
        "SUBJECT  AT_TIME                  TOPIC\n"
        "a        1970-01-01 00:00:00.000  -\n"
        "c        -                        -\n",
        "",
    )
    assert ask(folder, sql + " LIMIT 1", "-o", "json") == (
        0,
        '{"rows": [{"subject": "a", "at_time": "1970-01-01 00:00:00.000", "topic": null}], "more": false}\n',
        "",
    )
    assert "findings  2 rows" in ask(folder)[1]
    assert '"name": "failovers", "rows": 0' in ask(folder, "-o", "json")[1]
    code, out, err = ask(folder, "SELECT x FROM findings")
    assert (code, out) == (2, "")
    assert "x" in err


def test_no_more_rows_are_read_than_the_limit(folder: OutputFolder) -> None:
    """Of a result that would not fit into memory."""
    endless = "SELECT number FROM range(1::BIGINT << 61) AS numbers(number)"
    found = run_query(folder, endless, limit=3)
    assert (found.rows, found.more) == ([[0], [1], [2]], True)
    assert not run_query(folder, endless + " LIMIT 3", limit=3).more
    code, out, err = ask(folder, endless, "--limit", "2")
    assert (code, out) == (0, "NUMBER\n0\n1\n")
    assert err == "only the first 2 rows: --limit raises that; LIMIT … OFFSET … in the SQL shows the next ones\n"
    assert ask(folder, endless, "--limit", "1", "-o", "json")[1] == '{"rows": [{"number": 0}], "more": true}\n'
    assert ask(folder, endless, "--limit", "0")[0] == 2


def test_a_damaged_table_is_named(folder: OutputFolder) -> None:
    Path(folder.path(folder.table_files(FINDINGS_TABLE)[0].name)).write_bytes(b"garbage")
    code, out, err = ask(folder, "SELECT * FROM findings")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "tables/findings" in err
