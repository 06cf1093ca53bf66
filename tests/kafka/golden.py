"""The bytes that Kafka's own classes give for the example values.

    python -m tests.kafka.golden

writes them anew, by Kafka's classes, into `tests/unit/cluster/kafka_wire/golden/golden_bytes.txt`: a line for each
version of each message with its name, its version, and the bytes of the full and of the empty example in base64.
"""

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cluster.kafka_wire.message import Message
from deploy.local.java import find_java
from tests.kafka.broker import kafka_class_path
from tests.kafka.messages import EVERY_VERSION, as_json, empty_example, full_example

FOLDER: Final = Path(__file__).parents[1] / "unit" / "cluster" / "kafka_wire" / "golden"
GOLDEN: Final = FOLDER / "golden_bytes.txt"
PROGRAM: Final = FOLDER / "KafkaMessages.java"
ABSENT: Final = "-"
"""The answer where a release of Kafka has no such version of a message."""


def recorded() -> dict[tuple[str, int], tuple[bytes, bytes]]:
    """By name and version, the bytes of both examples."""
    rows = (line.split(" ") for line in GOLDEN.read_text().splitlines())
    return {(name, int(version)): (decoded(full), decoded(empty)) for name, version, full, empty in rows}


def decoded(text: str) -> bytes:
    return base64.b64decode(text)


def examples() -> Iterator[tuple[str, int, Message]]:
    """Name, version and both examples of each."""
    for name, version in EVERY_VERSION:
        yield name, version, full_example(name, version)
        yield name, version, empty_example(name, version)


def bytes_by_kafka(release: str) -> list[bytes]:
    """The bytes of all examples in their order, by the classes of a release that has them all."""
    lines = [f"encode {name} {version} {json.dumps(as_json(made, version))}" for name, version, made in examples()]
    return [bytes.fromhex(answer) for answer in answers_of_kafka(lines, release)]


def answers_of_kafka(lines: Sequence[str], release: str) -> list[str]:
    """What the Java program answers. Skips the test where the jars cannot be had."""
    java = [str(find_java().executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [*java, "-cp", os.pathsep.join(kafka_class_path(release)), str(PROGRAM)]
    run = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    answers = run.stdout.splitlines()
    assert len(answers) == len(lines)
    return answers


def main() -> None:
    made = [base64.b64encode(data).decode() for data in bytes_by_kafka("3.9.1")]
    rows = zip(EVERY_VERSION, made[::2], made[1::2], strict=True)
    GOLDEN.write_text("".join(f"{name} {version} {full} {empty}\n" for (name, version), full, empty in rows))


if __name__ == "__main__":
    main()
