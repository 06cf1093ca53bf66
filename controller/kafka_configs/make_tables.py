"""Write `tables/*.json`: the topic configs of each release of Kafka, by reflection on its own classes.

    python -m controller.kafka_configs.make_tables [RELEASE…]

Needs Java 17 on PATH and jgo, which fetches the jars: some 70 MB for each release that is not in its cache.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from controller.kafka_configs.tables import JARS, TABLES, as_text

PROGRAM: Final = Path(__file__).with_name("KafkaTopicConfigs.java")
_SWITCHES: Final = re.compile(r"remote\..*")
_FORMAT: Final = "message.format.version"


def main(releases: Sequence[str]) -> None:
    """Write the tables of these releases."""
    for release in releases:
        table = made_table(f"{jars_of(release)}", "java")
        (TABLES / f"{release}.json").write_text(as_text(table), "utf-8")


def jars_of(release: str) -> str:
    """The class path of a release."""
    import jgo  # noqa: PLC0415 - installed only where jars are fetched

    folder = jgo.build(f"org.apache.kafka:kafka_2.13:{JARS[release]}").path
    return f"{folder}/jars/*:{folder}/modules/*"


def made_table(class_path: str, java: str) -> dict[str, Any]:
    """The table of the release on a class path."""
    (table,) = answers([{}], class_path, java)
    switches = [key["name"] for key in table["keys"] if key["type"] == "boolean" and _SWITCHES.match(key["name"])]
    formats = _formats(next(key["shown"] for key in table["keys"] if key["name"] == _FORMAT))
    asked = [{_FORMAT: "?"}, *({name: "true"} for name in switches), *({_FORMAT: name} for name in formats)]
    unknown, *refusals = answers(asked, class_path, java)
    table["refused"] = {name: why for name, why in zip(switches, refusals, strict=False) if why}
    table["formats"] = [name for name, why in zip(formats, refusals[len(switches) :], strict=True) if not why]
    table["unknown_format"] = unknown.partition(": ")[2]
    return {name: table[name] for name in ("keys", "refused", "formats", "unknown_format", "apis")}


def _formats(shown: str) -> list[str]:
    """The message formats that a validator shows, and the releases that they belong to."""
    full = shown.strip("[]").split(", ")
    return [*dict.fromkeys([name.partition("-")[0] for name in full] + full)]


def answers(lines: Sequence[dict[str, str]], class_path: str, java: str) -> list[Any]:
    """What the Java program answers to each line."""
    command = [java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path, str(PROGRAM)]
    asked = "".join(f"{json.dumps(line)}\n" for line in lines)
    run = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{PROGRAM.name} failed:\n{run.stderr}")
    return [json.loads(line) for line in run.stdout.splitlines()]


if __name__ == "__main__":
    main(sys.argv[1:] or [*JARS])
