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
from state_log.record import Witness
from state_log.writer import FileStateChangeLog, boot_id


def state_log_apis(log: FileStateChangeLog) -> tuple[DirectApi[Any], ...]:
    """The APIs of ClusterService that controllers and agents share."""

    async def read_state_changes(request: ReadStateChangesRequest) -> ReadStateChangesResponse:
        return await asyncio.to_thread(read_lines, log.directory, request.topic, request.partition)

    async def describe_log_heads(_: DescribeLogHeadsRequest) -> DescribeLogHeadsResponse:
        flushed = log.flushed_head or StateLogHead()
        head = LogHead(log.node, log.incarnation, *log.head, boot_id(), flushed.seq, flushed.digest)
        former = log.former_end
        # A run that has written nothing has no file: the newest one is of the run before.
        return DescribeLogHeadsResponse((head,) if former is None else (head, _head_of(former)))

    return (
        DirectApi(ReadStateChangesRequest, ApiKind.LOCAL, read_state_changes),
        DirectApi(DescribeLogHeadsRequest, ApiKind.LOCAL, describe_log_heads),
    )


def _head_of(former: Witness) -> LogHead:
    """The head of a run that has ended. Its file was flushed when it was read, at the start of this run."""
    return LogHead(former.node, former.incarnation, former.seq + 1, former.digest, "", former.seq, former.digest)
