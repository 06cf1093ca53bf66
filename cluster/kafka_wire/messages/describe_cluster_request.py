"""DescribeClusterRequest, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeClusterRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClusterRequest"

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # 1+
