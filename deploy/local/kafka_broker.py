"""One broker of Apache Kafka in ZooKeeper mode, as a process of this machine: its files and its command.

Whoever starts it sees the server's log on its output; the state-change log has files of its own, as Kafka's
log4j.properties has it, at TRACE, so that the audit can follow each request.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from deploy.local.java import find_java

MAIN_CLASS: Final = "kafka.Kafka"
STATE_CHANGE_LOG: Final = "state-change.log"
STARTED: Final = "started (kafka.server.KafkaServer)"
"""The end of the line that a broker logs once it serves requests."""
# Serial collection and one compiler: several brokers share this machine, and none of them is busy for long.
JVM_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)
SMALL: Final[Mapping[str, Any]] = {
    "num.network.threads": 1,
    "num.io.threads": 3,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "controlled.shutdown.retry.backoff.ms": 1000,
    "zookeeper.session.timeout.ms": 6000,
    "zookeeper.connection.timeout.ms": 18_000,
}
"""Settings for brokers that share a machine with others: few threads and buffers, short sessions."""
LOG_CONFIG: Final = """\
log4j.rootLogger=INFO, server
log4j.appender.server=org.apache.log4j.ConsoleAppender
log4j.appender.server.layout=org.apache.log4j.PatternLayout
log4j.appender.server.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.changes=org.apache.log4j.FileAppender
log4j.appender.changes.File=${klamm.state.change.log}
log4j.appender.changes.layout=org.apache.log4j.PatternLayout
log4j.appender.changes.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.state.change.logger=${klamm.state.change.level}, changes
log4j.additivity.state.change.logger=false
"""


class KafkaBroker(Struct, frozen=True):
    """One broker. `data`: where it keeps its partitions. `state_changes`: the folder of its state-change.log."""

    id: int
    port: int
    zookeeper: str
    data: Path
    state_changes: Path
    settings: Mapping[str, Any] = {}
    rack: str = ""
    heap_mb: int = 384
    jvm_options: tuple[str, ...] = JVM_OPTIONS
    state_change_level: str = "TRACE"
    host: str = "127.0.0.1"

    def properties(self) -> dict[str, Any]:
        """Make all of `server.properties`; `settings` win."""
        return {
            **SMALL,
            "broker.id": self.id,
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": self.data,
            "zookeeper.connect": self.zookeeper,
            **({"broker.rack": self.rack} if self.rack else {}),
            **self.settings,
        }


def prepare(broker: KafkaBroker, config: Path, class_path: Sequence[str]) -> list[str]:
    """Write the configuration into the folder `config`; returns the command. Raises StartupError without Java.

    `class_path`: the jars of one version, see `kafka_jars`.
    """
    java = find_java()
    for folder in (config, broker.data, broker.state_changes):
        folder.mkdir(parents=True, exist_ok=True)
    properties = config.resolve() / f"kafka-{broker.id}.properties"
    properties.write_text("".join(f"{name}={_text(value)}\n" for name, value in broker.properties().items()))
    log_config = config.resolve() / "kafka-log4j.properties"
    log_config.write_text(LOG_CONFIG)
    return [
        str(java.executable),
        f"-Xmx{broker.heap_mb}m",
        *broker.jvm_options,
        f"-Dlog4j.configuration=file:{log_config}",
        f"-Dklamm.state.change.log={broker.state_changes.resolve() / STATE_CHANGE_LOG}",
        f"-Dklamm.state.change.level={broker.state_change_level}",
        "-cp",
        os.pathsep.join(class_path),
        MAIN_CLASS,
        str(properties),
    ]


def _text(value: object) -> str:
    """A value as java.util.Properties reads it: a backslash begins an escape there."""
    return str(value).lower() if isinstance(value, bool) else str(value).replace("\\", "\\\\").replace("\n", "\\n")
