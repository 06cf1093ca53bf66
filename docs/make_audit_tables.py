"""Write the tables of the audit into docs/audit-tables.md from the registry that the code itself uses.

Run it after a change of `audit/tables.py`: .venv/bin/python docs/make_audit_tables.py
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow

from audit.storage.table_schemas import TABLES, Table

DOCUMENT = Path(__file__).resolve().parent / "audit-tables.md"
BEGIN, END = "<!-- audit-tables:begin -->", "<!-- audit-tables:end -->"


def section(table: Table) -> str:
    """What a table is, its key, and its columns with their types."""
    key = f"Key: {_codes(table.key, ', ')}. " if table.is_revised else "Rows are written once. "
    days = f"Days are those of {_codes(table.days, ' or else ')}."
    columns = "\n".join(f"| `{field.name}` | {type_name(field.type)} |" for field in table.stored)
    says = f"{table.says[0].upper()}{table.says[1:]}."
    return f"### {table.name}\n\n{says}\n\n{key}{days}\n\n| column | type |\n|---|---|\n{columns}"


def _codes(names: Iterable[str], separator: str) -> str:
    return separator.join(f"`{name}`" for name in names)


def type_name(kind: pyarrow.DataType) -> str:
    """As Parquet has it."""
    if pyarrow.types.is_dictionary(kind):
        return type_name(kind.value_type)
    return f"list of {type_name(kind.value_type)}" if pyarrow.types.is_list(kind) else str(kind)


def with_tables(text: str) -> str:
    """Replace what stands between the two marks in `text`."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    sections = "\n\n".join(map(section, TABLES.values()))
    return f"{head}{BEGIN}\n\n{sections}\n\n{END}{tail}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
