"""The results of the matrix: a line of JSON for each run, and the table of the last ones."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tests.kafka_matrix.axes import EXCLUSIONS, Cluster

_PAGE = Path(__file__).parents[2] / "docs" / "kafka-brokers.md"
_BEGIN, _END = "<!-- begin matrix: python -m tests.kafka_matrix --write -->", "<!-- end matrix -->"

_PASSED, _FAILED = "adopted, governed, left", "failed"
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


class Row(Struct, frozen=True):
    """One run. `commit`: a + after it says that the product was changed since. `steps`: how long each took, in s."""

    cluster: str
    passed: bool
    result: str
    seconds: float
    commit: str
    date: str
    steps: dict[str, float] = {}

    def to_line(self) -> str:
        return msgspec.json.encode(self).decode() + "\n"


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    return [msgspec.json.decode(line, type=Row) for line in file.read_text().splitlines()]


def latest(rows: Iterable[Row]) -> dict[str, Row]:
    """The last run of each cluster."""
    return {row.cluster: row for row in rows}


def table(chosen: Sequence[Cluster], rows: Iterable[Row], before: str = "") -> str:
    """As the documentation shows it. `before`: what it showed; clusters without a run keep their row of it."""
    found = latest(rows)
    ran = [found[one.name] for one in chosen if one.name in found]
    kept = {line.rpartition(" | ")[0].rpartition(" | ")[0]: line for line in before.splitlines()}
    lines = [_line(one, found.get(one.name), kept) for one in chosen]
    passed, failed = (sum(f" | {what}" in line for line in lines) for what in (_PASSED, _FAILED))
    dates = sorted({row.date for row in ran} | set(_DATE.findall(before.partition("|")[0])))
    when = " to ".join(dates[:1] + dates[1:][-1:])
    head = [
        f"{passed} of {len(chosen)} clusters passed, {failed} failed; {when}.",
        "",
        "| Kafka | between brokers | mechanism | authorizer | ZooKeeper | shape | result | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *lines, "", "Not among them are:", "", *(f"- {one.reason}" for one in EXCLUSIONS)])


def _line(cluster: Cluster, row: Row | None, kept: Mapping[str, str]) -> str:
    named = f"| {' | '.join(cluster)}"
    if row is None:
        return kept.get(named, f"{named} | not run |  |")
    return f"{named} | {_result(row)} | {row.seconds:.0f} |"


def _result(row: Row) -> str:
    return f"{_PASSED}; {row.result}" if row.passed else f"{_FAILED}: {row.result[:200]}"


def write_document(chosen: Sequence[Cluster], rows: Iterable[Row], page: Path = _PAGE) -> None:
    """Replace what is between the marks."""
    text = page.read_text()
    head, found, rest = text.partition(_BEGIN)
    assert found, f"{page} has no {_BEGIN}"
    before, _, tail = rest.partition(_END)
    page.write_text(f"{head}{_BEGIN}\n{table(chosen, rows, before)}\n{_END}{tail}")
