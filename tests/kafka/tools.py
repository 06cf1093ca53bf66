"""Kafka's console tools, as an operator runs them: verbs of each version, and what a run of one came to."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from deploy.local.java import find_java
from deploy.local.kafka_broker import JVM_OPTIONS
from tests.kafka.broker import kafka_class_path

VERSIONS: Final = ("2.4.1", "2.8.2", "3.9.1")
_TIMEOUT_S: Final = 120
_ATTEMPTS: Final = 5
_ENDLESS: Final = -1
_DONE: Final = r"-0 (is complete|completed successfully)"
_NEW: Final = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "election": "org.apache.kafka.tools.LeaderElectionCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
}
_OLD: Final = {
    "topics": "kafka.admin.TopicCommand",
    "reassign": "kafka.admin.ReassignPartitionsCommand",
    "election": "kafka.admin.LeaderElectionCommand",
    "groups": "kafka.admin.ConsumerGroupCommand",
    "log-dirs": "kafka.admin.LogDirsCommand",
    "delete-records": "kafka.admin.DeleteRecordsCommand",
    "offsets": "kafka.tools.GetOffsetShell",
    "consumer": "kafka.tools.ConsoleConsumer",
    "consumer-perf": "kafka.tools.ConsumerPerformance",
}
_ALL: Final = {
    "configs": "kafka.admin.ConfigCommand",
    "acls": "kafka.admin.AclCommand",
    "api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "producer": "kafka.tools.ConsoleProducer",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}
# What no two runs have in common: ids, times, rates, addresses, and which broker a group's coordinator is.
_VARIES: Final = (
    (re.compile(r"TopicId: \S+"), "TopicId: …"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T:\d,.-]*"), "TIME"),
    (re.compile(r"(?<=[( ])[\d.]+(?= (records/sec|MB/sec|ms ))"), "RATE"),
    (re.compile(r'"(timestamp|offset|target_throughput|avg_throughput)":[\d.]+,?'), ""),
    (re.compile(r"Elr: \S*|LastKnownElr: \S*"), ""),
    # Klamm's controller is one of the brokers that a tool sees.
    (re.compile(r"(?<=on brokers 1,2,3),\d+"), ""),
    (re.compile(r"^__(consumer_offsets|transaction_state)$"), ""),
    (re.compile(r"\s+"), " "),
)


class Verb(Struct, frozen=True):
    """One run of a tool. `shows`: whether what it prints is compared, or only how it ends: offsets and rates differ
    from run to run, and the text of a refusal is the controller's own.

    `until`: what its output has to hold before it is taken; the tool is run again till then. `input`: for stdin.
    """

    name: str
    tool: str
    arguments: tuple[str, ...]
    shows: bool = True
    until: str = ""
    input: str = ""


class Result(Struct, frozen=True):
    """`code`: -1 of a tool that did not end. `lines`: sorted, without what no two runs have in common."""

    code: int
    lines: tuple[str, ...]


class Where(Struct, frozen=True):
    """What tools connect to: `bootstrap` of brokers or of klamm, and ZooKeeper for the oldest."""

    bootstrap: str
    zookeeper: str


def verbs(version: str, where: Where, topic: str, folder: Path) -> Iterator[Verb]:
    """In order: each may rely on those before. Needs three brokers, 1 to 3."""
    is_old = version.startswith("2.4")
    at = ("--bootstrap-server", where.bootstrap)
    admin = ("--zookeeper", where.zookeeper) if is_old else at
    named = ("--topic", topic)
    sent = ("--broker-list", where.bootstrap) if is_old else at
    yield Verb("create", "topics", (*admin, "--create", *named, "--replica-assignment", "1:2:3,2:3:1,3:1:2"))
    chosen = (*admin, "--create", "--topic", f"{topic}-2", "--partitions", "3", "--replication-factor", "3")
    yield Verb("create, replicas chosen", "topics", chosen)
    yield Verb(
        "create again",
        "topics",
        (*admin, "--create", *named, "--partitions", "3", "--replication-factor", "1"),
        shows=False,
    )
    yield Verb("describe", "topics", (*admin, "--describe", *named), until="Isr: [123],[123],[123]")
    yield Verb("list", "topics", (*admin, "--list"))
    added = ("--partitions", "4", "--replica-assignment", "1:2:3,2:3:1,3:1:2,1:3:2")
    yield Verb("add partitions", "topics", (*admin, "--alter", *named, *added))
    yield Verb("take partitions away", "topics", (*admin, "--alter", *named, "--partitions", "2"), shows=False)
    of_topic = (*admin, "--entity-type", "topics", "--entity-name", topic)
    yield Verb("set a config", "configs", (*of_topic, "--alter", "--add-config", "retention.ms=3600000"))
    yield Verb("set a wrong config", "configs", (*of_topic, "--alter", "--add-config", "retention.ms=abc"), shows=False)
    yield Verb("describe configs", "configs", (*of_topic, "--describe"), until="retention.ms=3600000")
    of_brokers = (*at, "--entity-type", "brokers", "--entity-default")
    yield Verb("set brokers' config", "configs", (*of_brokers, "--alter", "--add-config", "log.cleaner.threads=2"))
    yield Verb("describe brokers' config", "configs", (*of_brokers, "--describe"))
    of_user = (*admin, "--entity-type", "users", "--entity-name", "ann")
    credential = "SCRAM-SHA-256=[iterations=8192,password=secret]"
    yield Verb("set a user's credential", "configs", (*of_user, "--alter", "--add-config", credential))
    # The oldest tools show the salt.
    yield Verb("describe credentials", "configs", (*of_user, "--describe"), shows=not is_old, until="SCRAM|^$")
    take_away = (*of_user, "--alter", "--delete-config", "SCRAM-SHA-256")
    yield Verb("delete a user's credential", "configs", take_away)
    yield Verb("delete it again", "configs", take_away, shows=False)
    # With keys, so that every partition gets records: some of them are deleted below.
    lines = "".join(f"key {number}:line {number}\n" for number in range(100))
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    yield Verb("produce", "producer", (*sent, *named, *keyed), input=lines)
    group = ("--group", f"group-{topic}")
    read = (*at, *named, *group, "--from-beginning", "--max-messages", "100", "--timeout-ms", "30000")
    yield Verb("consume in a group", "consumer", read)
    yield Verb("describe the group", "groups", (*at, "--describe", *group), shows=False)
    yield Verb("list groups", "groups", (*at, "--list"))
    reset = (*at, *group, *named, "--reset-offsets", "--to-earliest", "--execute")
    yield Verb("reset offsets", "groups", reset, until=f"{topic} +3 +0")
    yield Verb("delete the group", "groups", (*at, "--delete", *group))
    perf = ("--producer-props", f"bootstrap.servers={where.bootstrap}", "acks=all", "--throughput", "-1")
    yield Verb("produce fast", "producer-perf", (*named, "--num-records", "1000", "--record-size", "100", *perf), False)
    consumer_at = ("--broker-list", where.bootstrap) if is_old else at
    yield Verb("consume fast", "consumer-perf", (*consumer_at, *named, "--messages", "1000"), shows=False)
    five = ("--broker-list", where.bootstrap, *named, "--max-messages", "5")
    yield Verb("verifiable producer", "verifiable-producer", five, shows=False)
    offsets_at = at if version.startswith("3") else ("--broker-list", where.bootstrap)
    yield Verb("offsets", "offsets", (*offsets_at, *named), shows=False)
    yield Verb("delete records", "delete-records", (*at, "--offset-json-file", _json(folder, _records(topic))))
    moves = _json(folder, _moves(topic))
    reassign = (*(admin if is_old else at), "--reassignment-json-file", moves)
    yield Verb("reassign with a throttle", "reassign", (*reassign, "--execute", "--throttle", "10000000"))
    yield Verb("verify reassignment", "reassign", (*reassign, "--verify"), until=_DONE)
    yield Verb("describe after reassignment", "topics", (*admin, "--describe", *named), until="Replicas: 3,1 ")
    yield Verb("preferred election", "election", (*at, "--election-type", "preferred", "--all-topic-partitions"))
    yield Verb("log dirs", "log-dirs", (*at, "--describe", "--topic-list", topic), shows=False)
    yield Verb("acls", "acls", (*at, "--list"))
    yield Verb("api versions", "api-versions", at, shows=False)
    yield Verb("delete", "topics", (*admin, "--delete", *named))
    yield Verb("delete the other", "topics", (*admin, "--delete", "--topic", f"{topic}-2"))
    yield Verb("list after deletion", "topics", (*admin, "--list"))


def run(version: str, verb: Verb, folder: Path) -> Result:
    """Again until its output is as wanted, a few times."""
    for _ in range(_ATTEMPTS):
        result = _run(version, verb, folder)
        if re.search(verb.until, "\n".join(result.lines)):
            break
    return result


def tool_command(version: str, tool: str, arguments: Sequence[str], folder: Path) -> list[str]:
    """The command of a tool; what it logs, from ERROR on, goes to stderr."""
    main = (_OLD if version < "3.9" else _NEW).get(tool) or _ALL[tool]
    log_config = folder / "tools-log4j.properties"
    log_config.write_text(
        "log4j.rootLogger=ERROR, err\nlog4j.appender.err=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.err.Target=System.err\nlog4j.appender.err.layout=org.apache.log4j.PatternLayout\n"
    )
    java = [str(find_java().executable), "-Xmx192m", *JVM_OPTIONS, f"-Dlog4j.configuration=file:{log_config}"]
    return [*java, "-cp", os.pathsep.join(kafka_class_path(version)), main, *arguments]


def _run(version: str, verb: Verb, folder: Path) -> Result:
    command = tool_command(version, verb.tool, verb.arguments, folder)
    try:
        done = subprocess.run(
            command, input=verb.input, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Result(_ENDLESS, ())
    with (folder / "tools.log").open("a") as log:
        log.write(f"{version} {verb.name}: {done.returncode}\n{done.stdout}{done.stderr}\n")
    lines = [_without_what_varies(line) for line in done.stdout.splitlines()] if verb.shows else []
    return Result(done.returncode, tuple(sorted(line for line in lines if line.strip())))


def _without_what_varies(line: str) -> str:
    for pattern, replacement in _VARIES:
        line = pattern.sub(replacement, line)
    return line


def _records(topic: str) -> Mapping[str, object]:
    return {"partitions": [{"topic": topic, "partition": 0, "offset": 1}], "version": 1}


def _moves(topic: str) -> Mapping[str, object]:
    return {"partitions": [{"topic": topic, "partition": 0, "replicas": [3, 1]}], "version": 1}


def _json(folder: Path, content: Mapping[str, object]) -> str:
    text = json.dumps(content)
    path = folder / f"tool-{sum(map(ord, text))}.json"
    path.write_text(text)
    return str(path)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
