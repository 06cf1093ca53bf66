"""The results of the matrix: a line of JSON for each run, and the table of the last ones."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.kafka_matrix.axes import EXCLUSIONS, Cluster

_PAGE = Path(__file__).parents[2] / "docs" / "kafka-brokers.md"
_BEGIN, _END = "<!-- begin matrix: python -m tests.kafka_matrix --write -->", "<!-- end matrix -->"


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


def table(chosen: Sequence[Cluster], rows: Iterable[Row]) -> str:
    """As the documentation shows it."""
    found = latest(rows)
    ran = [found[one.name] for one in chosen if one.name in found]
    passed, dates = sum(row.passed for row in ran), sorted({row.date for row in ran})
    when = " to ".join(dates[:1] + dates[1:][-1:])
    lines = [
        f"{passed} of {len(chosen)} clusters passed, {len(ran) - passed} failed; {when}.",
        "",
        "| Kafka | between brokers | mechanism | authorizer | ZooKeeper | shape | result | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in chosen:
        row = found.get(one.name)
        cells = ("not run", "") if row is None else (_result(row), f"{row.seconds:.0f}")
        lines.append(f"| {' | '.join([*one, *cells])} |")
    lines += ["", "Not among them are:", "", *(f"- {one.reason}" for one in EXCLUSIONS)]
    return "\n".join(lines)


def _result(row: Row) -> str:
    return f"adopted, governed, left; {row.result}" if row.passed else f"failed: {row.result[:200]}"


def write_document(chosen: Sequence[Cluster], rows: Iterable[Row], page: Path = _PAGE) -> None:
    """Replace what is between the marks."""
    text = page.read_text()
    head, found, rest = text.partition(_BEGIN)
    assert found, f"{page} has no {_BEGIN}"
    tail = rest.partition(_END)[2]
    page.write_text(f"{head}{_BEGIN}\n{table(chosen, rows)}\n{_END}{tail}")
