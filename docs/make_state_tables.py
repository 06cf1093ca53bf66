"""Write the state tables into ARCHITECTURE.md from the tables that the code itself uses.

Run it after a change of `cluster/model/state_machines.py`: .venv/bin/python docs/make_state_tables.py
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from cluster.model.state_machines import PREVIOUS_PARTITION_STATES, PREVIOUS_REPLICA_STATES

ARCHITECTURE = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"
BEGIN, END = "<!-- state-tables:begin -->", "<!-- state-tables:end -->"


def table(title: str, previous: Mapping[StrEnum, frozenset[StrEnum]]) -> str:
    """A table with a row per state one comes from and a column per state one goes to."""
    states = list(previous)
    rows = [
        f"| {title}: from \\ to | {' | '.join(states)} |",
        f"|{'---|' * (len(states) + 1)}",
        *(f"| {here} | {' | '.join('✓' if here in previous[there] else '' for there in states)} |" for here in states),
    ]
    return "\n".join(rows)


def with_tables(text: str) -> str:
    """Replace the tables between the two marks in `text`."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    tables = f"{table('partition', PREVIOUS_PARTITION_STATES)}\n\n{table('replica', PREVIOUS_REPLICA_STATES)}"
    return f"{head}{BEGIN}\n\n{tables}\n\n{END}{tail}"


if __name__ == "__main__":
    ARCHITECTURE.write_text(with_tables(ARCHITECTURE.read_text()))
