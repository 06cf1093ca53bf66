"""The APIs of every process for its own state-change log."""

import asyncio
from typing import Any

from cluster.requests.cluster import (
    DescribeLogHeadsRequest,
    DescribeLogHeadsResponse,
    LogHead,
    ReadStateChangesRequest,
    ReadStateChangesResponse,
)
from cluster.requests.control import StateLogHead
from cluster.rpc.apis import ApiKind, DirectApi
from state_log.reader import read_lines
from state_log.writer import FileStateChangeLog, boot_id


def state_log_apis(log: FileStateChangeLog) -> tuple[DirectApi[Any], ...]:
    """The APIs of ClusterService that controllers and agents share."""

    async def read_state_changes(request: ReadStateChangesRequest) -> ReadStateChangesResponse:
        return await asyncio.to_thread(read_lines, log.directory, request.topic, request.partition)

    async def describe_log_heads(_: DescribeLogHeadsRequest) -> DescribeLogHeadsResponse:
        flushed = log.flushed_head or StateLogHead()
        head = LogHead(log.node, log.incarnation, *log.head, boot_id(), flushed.seq, flushed.digest)
        return DescribeLogHeadsResponse((head,))

    return (
        DirectApi(ReadStateChangesRequest, ApiKind.LOCAL, read_state_changes),
        DirectApi(DescribeLogHeadsRequest, ApiKind.LOCAL, describe_log_heads),
    )
