"""The source of compiled functions, and which field each line of it reads or writes."""

from typing import NamedTuple

from cluster.kafka_wire.schema import Field


class LineOwner(NamedTuple):
    """Holds what a line is about: fields of the struct; whether it is one element of the field's array, at `index`."""

    fields: tuple[Field, ...]
    is_element: bool = False


class SourceText:
    """Lines of Python, collected."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.owners: dict[int, LineOwner] = {}
        """Keyed by line number, from 1."""

    def add(self, line: str, *fields: Field, element: bool = False) -> None:
        """Add a line; `fields`: those that an error in it is about."""
        self.lines.append(line)
        if fields:
            self.owners[len(self.lines)] = LineOwner(fields, element)

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"
