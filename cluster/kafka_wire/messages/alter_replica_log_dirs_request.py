"""AlterReplicaLogDirsRequest, versions 0-2. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AlterReplicaLogDirTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterReplicaLogDirsRequest"

    name: str = ""
    partitions: tuple[int, ...] = ()


class AlterReplicaLogDir(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterReplicaLogDirsRequest"

    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


class AlterReplicaLogDirsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AlterReplicaLogDirsRequest"

    dirs: tuple[AlterReplicaLogDir, ...] = ()
