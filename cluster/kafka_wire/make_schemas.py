"""Write `schemas/*.json`: the facts of Kafka's message definitions, from the jar of its clients.

    python -m cluster.kafka_wire.make_schemas [KAFKA-CLIENTS-JAR]

Without a path, jgo fetches the jar. Kept are the messages that brokers in ZooKeeper mode and their clients exchange,
without Kafka's comments and descriptions.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from cluster.kafka_wire.schema import SCHEMAS

KAFKA_VERSION: Final = "3.9.1"
_COORDINATES: Final = f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}"
_FOLDER: Final = "common/message/"
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')

_HEADERS: Final = ("RequestHeader", "ResponseHeader")
_ALSO_ASKED: Final = ("DescribeQuorum", "UnregisterBroker", "DescribeTopicPartitions")
"""Brokers in ZooKeeper mode do not serve these; clients and tools send them all the same."""
_MESSAGE_KEYS: Final = ("apiKey", "type", "name", "validVersions", "flexibleVersions")
_FIELD_KEYS: Final = (
    "name",
    "type",
    "versions",
    "nullableVersions",
    "taggedVersions",
    "flexibleVersions",
    "tag",
    "default",
    "ignorable",
    "mapKey",
    "entityType",
)


def main(jar: Path | None) -> None:
    """Write the files, and remove those of messages that are no longer kept."""
    texts = {f"{name}.json": as_text(definition) for name, definition in kept(definitions(jar or fetched_jar()))}
    SCHEMAS.mkdir(exist_ok=True)
    for file in SCHEMAS.glob("*.json"):
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        (SCHEMAS / name).write_text(text, "utf-8")


def fetched_jar() -> Path:
    """The jar of Kafka's clients in the local Maven repository, fetched if it is not there."""
    import jgo  # noqa: PLC0415 - installed only where jars are fetched

    return next(Path(jgo.build(_COORDINATES).path).rglob(f"kafka-clients-{KAFKA_VERSION}.jar"))


def definitions(jar: Path) -> dict[str, dict[str, Any]]:
    """All message definitions by name, as Kafka wrote them."""
    with ZipFile(jar) as archive:
        files = [name for name in archive.namelist() if name.startswith(_FOLDER) and name.endswith(".json")]
        texts = [archive.read(name).decode() for name in files]
    parsed = [json.loads(_COMMENT.sub(lambda found: found[1] or "", text)) for text in texts]
    return {definition["name"]: definition for definition in parsed}


def kept(all_definitions: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The definitions that the project has use for."""
    keys = {
        definition["apiKey"]
        for name, definition in all_definitions.items()
        if "zkBroker" in definition.get("listeners", ()) or name.removesuffix("Request") in _ALSO_ASKED
    }
    for name, definition in sorted(all_definitions.items()):
        if name in _HEADERS or definition.get("apiKey") in keys:
            yield name, definition


def as_text(definition: dict[str, Any]) -> str:
    """The definition's facts as JSON, with a line for each field."""
    lines = [_facts(definition, _MESSAGE_KEYS) + ',\n "fields": [', *_field_lines(definition["fields"], 1)]
    structs = definition.get("commonStructs", [])
    if structs:
        lines.append(' ],\n "commonStructs": [')
    for position, struct in enumerate(structs, 1):
        lines.append(f'  {_facts(struct, ("name", "versions"))}, "fields": [')
        lines += [*_field_lines(struct["fields"], 2), "  ]}" + "," * (position < len(structs))]
    return "\n".join([*lines, " ]}\n"])


def _field_lines(fields: list[dict[str, Any]], depth: int) -> Iterator[str]:
    indent = " " * (depth + 1)
    for position, field in enumerate(fields, 1):
        comma = "," * (position < len(fields))
        if inner := field.get("fields"):
            yield f'{indent}{_facts(field, _FIELD_KEYS)}, "fields": ['
            yield from _field_lines(inner, depth + 1)
            yield f"{indent}]}}{comma}"
        else:
            yield f"{indent}{_facts(field, _FIELD_KEYS)}}}{comma}"


def _facts(definition: dict[str, Any], keys: tuple[str, ...]) -> str:
    return json.dumps({key: definition[key] for key in keys if key in definition})[:-1]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
