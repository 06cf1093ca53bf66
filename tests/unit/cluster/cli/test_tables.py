"""Tables on terminals."""

from cluster.cli.tables import table_lines


def lines(header: list[str], rows: list[list[str]], width: int | None) -> list[str]:
    return [line for row in table_lines(header, rows, width) for line in row]


def test_without_a_width_each_row_is_a_line() -> None:
    assert lines(["NAME", "ISR"], [["x" * 90, "1,2"], ["y", "-"]], None) == [
        f"{'NAME':90}  ISR",
        f"{'x' * 90}  1,2",
        f"{'y':90}  -",
    ]


def test_the_widest_cells_are_folded_at_blanks_and_between_items() -> None:
    shown = lines(
        ["ISSUE", "WHERE", "DETAIL"],
        [["dead_broker", "broker 3", "not registered, hosts 12 replicas"], ["x", "1,2,3", "y"]],
        40,
    )
    assert shown == [
        "ISSUE        WHERE     DETAIL",
        "dead_broker  broker 3  not registered,",
        "                       hosts 12 replicas",
        "x            1,2,3     y",
    ]
    assert max(map(len, shown)) == 40


def test_a_time_stays_on_one_line() -> None:
    assert lines(["TIME_UTC", "EVENT"], [["2026-01-31 09:00:00.123", "a new leader of it all"]], 34) == [
        "TIME_UTC                 EVENT",
        "2026-01-31 09:00:00.123  a new",
        "                         leader of",
        "                         it all",
    ]


def test_headers_are_folded_at_their_underscores_when_the_table_is_too_wide() -> None:
    assert lines(["TOPIC", "PARTITION_EPOCH"], [["t", "7"]], 18) == ["TOPIC  PARTITION_", "       EPOCH", "t      7"]


def test_no_word_is_broken_for_a_terminal_that_is_too_narrow() -> None:
    assert lines(["ADDRESS"], [["127.0.0.1:25309"]], 10) == ["ADDRESS", "127.0.0.1:25309"]


def test_a_table_without_columns_or_rows_is_none() -> None:
    assert lines(["A"], [], 80) == ["A"]
