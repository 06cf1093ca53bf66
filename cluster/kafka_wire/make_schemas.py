"""Write `schemas/*.json` and `apis.json`: facts of Kafka's message definitions, from the jar of its clients.

    python -m cluster.kafka_wire.make_schemas [KAFKA-CLIENTS-JAR]

Without a path, jgo fetches the jar. `apis.json` has the versions of each API that brokers in ZooKeeper mode serve;
`schemas/` has only the messages that klamm itself reads or writes, without Kafka's comments and descriptions.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from cluster.kafka_wire.schema import APIS, SCHEMAS

KAFKA_VERSION: Final = "3.9.1"
_COORDINATES: Final = f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}"
_FOLDER: Final = "common/message/"
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')

FAMILIES: Final = {
    "control": ("LeaderAndIsr", "StopReplica", "UpdateMetadata"),
    "brokers": ("AlterPartition", "ControlledShutdown", "AllocateProducerIds", "UpdateFeatures"),
    "topics": ("CreateTopics", "DeleteTopics", "CreatePartitions", "DescribeTopicPartitions"),
    "partitions": ("ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments"),
    "configs": (
        "DescribeConfigs",
        "IncrementalAlterConfigs",
        "AlterConfigs",
        "AlterClientQuotas",
        "AlterUserScramCredentials",
    ),
    "acls": ("DescribeAcls", "CreateAcls", "DeleteAcls"),
    "data": ("Metadata", "ListOffsets", "DeleteRecords", "DescribeLogDirs", "Produce"),
    "coordinators": ("DescribeCluster", "FindCoordinator", "InitProducerId"),
    "connections": ("RequestHeader", "ResponseHeader", "ApiVersions", "Heartbeat", "ListGroups", "ListTransactions"),
    "authentication": ("SaslHandshake", "SaslAuthenticate"),
}
"""The APIs and headers that klamm or a test of it reads and writes, by the module that has their messages."""
GROUPS: Final = ("Coordinator", "Group", "Offset", "ProducerId", "Txn")
PASSED_ON: Final = ("passed_on_groups", "passed_on")
"""The modules of the other responses that have an error for the whole request, those of GROUPS apart: a request that is
not admitted is answered by one of them, though all others of its API are passed on to a broker byte for byte.
"""
_ALSO_ASKED: Final = ("DescribeQuorum", "UnregisterBroker", "DescribeTopicPartitions")
"""Brokers in ZooKeeper mode do not serve these; clients and tools send them all the same."""
_API_KEYS: Final = ("apiKey", "name", "validVersions", "flexibleVersions")
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
    found = definitions(jar or fetched_jar())
    texts = {f"{definition['name']}.json": as_text(definition) for definition in kept(found)}
    SCHEMAS.mkdir(exist_ok=True)
    for file in SCHEMAS.glob("*.json"):
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        (SCHEMAS / name).write_text(text, "utf-8")
    APIS.write_text(apis_as_text(found), "utf-8")


def fetched_jar() -> Path:
    """The jar of Kafka's clients in the local Maven repository, fetched if it is not there."""
    import jgo  # noqa: PLC0415 - installed only where jars are fetched

    return next(Path(jgo.build(_COORDINATES).path).rglob(f"kafka-clients-{KAFKA_VERSION}.jar"))


def definitions(jar: Path) -> dict[str, dict[str, Any]]:
    """Read all message definitions by name, as Kafka wrote them."""
    with ZipFile(jar) as archive:
        files = [name for name in archive.namelist() if name.startswith(_FOLDER) and name.endswith(".json")]
        texts = [archive.read(name).decode() for name in files]
    parsed = [json.loads(_COMMENT.sub(lambda found: found[1] or "", text)) for text in texts]
    return {definition["name"]: definition for definition in parsed}


def served_apis(all_definitions: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The requests of the APIs that a client may ask brokers in ZooKeeper mode for, by their keys."""
    served = [
        definition
        for name, definition in all_definitions.items()
        if "zkBroker" in definition.get("listeners", ()) or name.removesuffix("Request") in _ALSO_ASKED
    ]
    return sorted(served, key=lambda definition: int(definition["apiKey"]))


def apis_as_text(all_definitions: dict[str, dict[str, Any]]) -> str:
    """The versions of the served APIs as JSON, with a line for each API."""
    rows = ({**api, "name": _api_name(api["name"])} for api in served_apis(all_definitions))
    return "[\n" + ",\n".join(f" {_facts(row, _API_KEYS)}}}" for row in rows) + "\n]\n"


def kept(all_definitions: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The definitions that the project has use for."""
    listed = {name for names in FAMILIES.values() for name in names}
    keys = {api["apiKey"] for api in served_apis(all_definitions)}
    for name, definition in sorted(all_definitions.items()):
        refuses = definition["type"] == "response" and definition["apiKey"] in keys and _has_error_code(definition)
        if name in listed or _api_name(name) in listed or refuses:
            yield definition


def family_of(message: str) -> str:
    """The name of the module of a message that is kept."""
    found = (family for family, names in FAMILIES.items() if message in names or _api_name(message) in names)
    return next(found, PASSED_ON[not any(word in message for word in GROUPS)])


def _api_name(message: str) -> str:
    return message.removesuffix("Request").removesuffix("Response")


def _has_error_code(definition: dict[str, Any]) -> bool:
    return any(field["name"] == "ErrorCode" for field in definition["fields"])


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
