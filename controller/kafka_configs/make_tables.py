"""Write `topic_configs.json`: the topic configs of each release of Kafka, by reflection on its own classes.

    python -m controller.kafka_configs.make_tables

Needs Java 17 on PATH and jgo, which fetches the jars: some 70 MB for each release that is not in its cache.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from controller.kafka_configs.tables import JARS, TABLE

PROGRAM: Final = Path(__file__).with_name("KafkaTopicConfigs.java")
_SWITCHES: Final = re.compile(r"remote\..*")
_FORMAT: Final = "message.format.version"


def main() -> None:
    """Write the table of all releases."""
    TABLE.write_text(as_text({release: made_table(jars_of(release), "java") for release in JARS}), "utf-8")


def as_text(tables: Mapping[str, dict[str, list[Any]]]) -> str:
    """Write one table for all releases: a line for each entry of a field, with the first and the last release that has
    it.
    """
    newest = tables[max(tables)]
    # Kafka checks the keys in the order of the newest release, which has all of them.
    order = [key["name"] for key in newest["keys"]]
    fields: dict[str, str] = {}
    for field in newest:
        had: dict[str, list[str]] = {}
        for release, table in tables.items():
            for entry in table[field]:
                had.setdefault(json.dumps(entry), []).append(release)
        rows = [f'["{releases[0]}", "{releases[-1]}", {entry}]' for entry, releases in had.items()]
        if field == "keys":
            rows.sort(key=lambda row: order.index(json.loads(row)[2]["name"]))
        fields[field] = ",\n".join(rows)
    return "{\n" + ",\n".join(f'"{field}": [\n{rows}\n]' for field, rows in fields.items()) + "\n}\n"


def jars_of(release: str) -> str:
    """The class path of a release."""
    import jgo  # noqa: PLC0415 - installed only where jars are fetched

    folder = jgo.build(f"org.apache.kafka:kafka_2.13:{JARS[release]}").path
    return f"{folder}/jars/*:{folder}/modules/*"


def made_table(class_path: str, java: str) -> dict[str, list[Any]]:
    """The entries of each field of the table, by the release on a class path."""
    (table,) = answers([{}], class_path, java)
    switches = [key["name"] for key in table["keys"] if key["type"] == "boolean" and _SWITCHES.match(key["name"])]
    # What this key shows are the formats, which have a field of their own.
    formats = _formats(next(key.pop("shown") for key in table["keys"] if key["name"] == _FORMAT))
    asked = [{_FORMAT: "?"}, *({name: "true"} for name in switches), *({_FORMAT: name} for name in formats)]
    unknown, *refusals = answers(asked, class_path, java)
    return {
        "keys": table["keys"],
        "refused": [[name, why] for name, why in zip(switches, refusals, strict=False) if why],
        "formats": [name for name, why in zip(formats, refusals[len(switches) :], strict=True) if not why],
        "unknown_format": [unknown.partition(": ")[2]],
        "apis": [[int(key), latest] for key, latest in table["apis"].items()],
    }


def _formats(shown: str) -> list[str]:
    """The message formats that a validator shows, and the releases that they belong to."""
    full = shown.strip("[]").split(", ")
    return [*dict.fromkeys([name.partition("-")[0] for name in full] + full)]


def answers(lines: Sequence[dict[str, str]], class_path: str, java: str) -> list[Any]:
    """Return the Java program's answer to each line."""
    command = [java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path, str(PROGRAM)]
    asked = "".join(f"{json.dumps(line)}\n" for line in lines)
    run = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{PROGRAM.name} failed:\n{run.stderr}")
    return [json.loads(line) for line in run.stdout.splitlines()]


if __name__ == "__main__":
    main()
