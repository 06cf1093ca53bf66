"""`klamm perf`: what is refused before a cluster is asked, and what is said of measures."""

import pytest
from typer.testing import CliRunner

from admin.cli.perf import _produce_document, _produce_lines
from admin.consuming.record_history import HistoryRule, HistorySummary
from admin.producing.produce_load import ProduceMeasures
from cluster.metrics.quantiles import LatencySummary
from launcher.__main__ import app

MEASURES = ProduceMeasures(
    records=100,
    failed=0,
    seconds=2.0,
    records_per_s=50.0,
    mb=0.01,
    mb_per_s=0.0,
    latency_ms=LatencySummary(1.5, 9, 1, 2, 3, 4),
    batches_retried=1,
    idempotent=True,
    verified=HistorySummary({HistoryRule.LOST: 2, HistoryRule.REORDERED: 1}, 3),
)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["produce", "t", "--records", "0"], "0"),
        (["produce", "t", "--records", "5", "--throughput", "0"], "must be above 0, or -1 for no limit"),
        (["produce", "t", "--records", "5", "--warmup", "5"], "5: must be less than --records 5"),
        (["produce", "t", "--records", "5", "--record-size", "8"], "8"),
        (["consume", "t", "--from-end"], "--from-end needs --records"),
    ],
)
def test_wrong_usage_names_option_and_value(arguments: list[str], said: str) -> None:
    answer = CliRunner().invoke(app, ["perf", *arguments, "--bootstrap", "localhost:1"])
    assert answer.exit_code == 2
    assert said in answer.stderr


def test_measures_are_said_as_kafkas_tool_says_them_with_what_was_read_back() -> None:
    assert _produce_lines(MEASURES) == [
        "100 records acknowledged, 50.0 records/s (0.00 MB/s), 1.50 ms avg latency, 9.00 ms max latency, 1.00 ms 50th,"
        " 2.00 ms 95th, 3.00 ms 99th, 4.00 ms 99.9th",
        "1 batch sent again",
        "read back: 2 lost, 3 stored twice, 1 reordered",
    ]
    document = _produce_document("t", MEASURES)
    assert document["verified"] == {"lost": 2, "duplicates": 3, "reordered": 1}
    assert document["latency_ms"]["p999"] == 4
