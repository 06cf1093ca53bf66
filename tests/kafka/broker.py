"""A broker of Apache Kafka's on loopback, a cluster of one in KRaft mode."""

import asyncio
import base64
import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from cluster.model.errors import StartupError
from deploy.local.java import find_java
from deploy.local.kafka_broker import JVM_OPTIONS, MAIN_CLASS
from deploy.local.kafka_jars import NEWEST, find_kafka_jars
from deploy.local.processes import choose_free_ports
from tests.timeouts import TIMEOUT_S


def kafka_class_path(version: str = NEWEST) -> list[str]:
    """Skips the test, visibly, where the jars cannot be had."""
    try:
        return find_kafka_jars(version)
    except StartupError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def kafka_broker(folder: Path, settings: Mapping[str, str] = {}) -> Iterator[str]:
    """Runs it, with these settings besides; yields its address."""
    class_path, (port, controller) = os.pathsep.join(kafka_class_path()), choose_free_ports(2)
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "auto.create.topics.enable": "false",
        **settings,
    }
    config = folder / "server.properties"
    folder.mkdir(parents=True)
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    java = [str(find_java().executable), "-Xmx512m", *JVM_OPTIONS, "-cp", class_path]
    cluster = base64.urlsafe_b64encode(b"\1" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    with (folder / "kafka.log").open("ab") as log:
        format_ = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
        subprocess.run(format_, check=True, stdout=log, stderr=log, timeout=TIMEOUT_S)
        with subprocess.Popen([*java, MAIN_CLASS, str(config)], stdout=log, stderr=log) as process:
            try:
                yield f"127.0.0.1:{port}"
            finally:
                process.kill()


async def create_topic(bootstrap: str, name: str, partitions: int, replicas: int = 1) -> None:
    """Waits for the broker to start."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + TIMEOUT_S
    while True:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=TIMEOUT_S * 1000)
        try:
            await client.start()
            break
        except KafkaError:
            await client.close()
            assert loop.time() < deadline, f"no broker at {bootstrap}"
            await asyncio.sleep(0.2)
    try:
        await client.create_topics([NewTopic(name, partitions, replicas)])
    finally:
        await client.close()
