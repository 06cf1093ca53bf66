"""The end of the demonstration: the logs are audited, and a copy with a lie in it, which the audit must find."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from cluster.broker import BrokerId, PartitionEpoch
from cluster.errors import StartupError
from cluster.partition_history import ONE_LEADER_PER_EPOCH
from cluster.process.clock import SystemClock
from cluster.state_change_files import FileStateChangeLog
from cluster.state_change_log import Cause, Kind, LoggedStateChange, StateChange, incarnation_id
from cluster.state_change_reader import read_state_changes

_EXIT_CODES_WITH_A_VERDICT: Final = (0, 3)
_WRITTEN_BY_CONTROLLERS: Final = (Kind.PARTITION, Kind.REPLICA, Kind.ISR)


class AuditOutcome(Struct, frozen=True):
    """What `klamm audit run` said of the logs as they are, and of the copy with the injected record."""

    verdict: str
    records: int
    findings: dict[str, int]
    injected: str
    found: dict[str, int]

    @property
    def proves_something(self) -> bool:
        """Whether the injected second leader was found."""
        return ONE_LEADER_PER_EPOCH in self.found


async def audit_twice(logs: Sequence[Path], topic: str, folder: Path) -> AuditOutcome:
    """Audit the logs, and at the same time a copy in `folder` with a second leader in one epoch."""
    copy = folder / "logs-with-second-leader"
    copies = [copy / path.name for path in logs]
    for original, copied in zip(logs, copies, strict=True):
        shutil.copytree(original, copied)
    injected = inject_second_leader(copies, topic)
    as_written, with_lie = await asyncio.gather(
        _run_audit(logs, folder / "audit"), _run_audit(copies, folder / "audit-of-second-leader")
    )
    return AuditOutcome(
        as_written["verdict"], as_written["records"], as_written["findings"], injected, with_lie["findings"]
    )


def inject_second_leader(logs: Sequence[Path], topic: str) -> str:
    """Add one well-formed record to a log: another replica as leader in the newest epoch of a partition.

    Numbered and chained as the real ones, so that nothing but what it says is wrong. Tells what was added.
    """
    genuine = _newest_leadership(logs, topic)
    assert genuine.leader is not None, "chosen for its leader"
    other = next(b for b in genuine.isr or () if b != genuine.leader)
    clock = SystemClock()
    folder = next(path for path in logs if any(r.node == genuine.node for r in read_state_changes([path])))
    log = FileStateChangeLog(
        folder, node=genuine.node, incarnation=incarnation_id(clock.now_ms(), os.getpid()), clock=clock
    )
    log.append(
        [
            StateChange(
                kind=Kind.ISR,
                cause=Cause("InjectedByDemo"),
                controller_epoch=genuine.controller_epoch,
                topic=genuine.topic,
                partition=genuine.partition,
                leader=BrokerId(other),
                leader_epoch=genuine.leader_epoch,
                partition_epoch=None
                if genuine.partition_epoch is None
                else PartitionEpoch(genuine.partition_epoch + 1),
                isr=genuine.isr,
                reason="a second leader in one leader epoch, which must be found",
            )
        ]
    )
    log.close()
    return (
        f"{genuine.topic}-{genuine.partition}: broker {other} beside {genuine.leader} in epoch {genuine.leader_epoch}"
    )


def _newest_leadership(logs: Sequence[Path], topic: str) -> LoggedStateChange:
    written = [
        r
        for r in read_state_changes(logs, topic)
        if r.kind in _WRITTEN_BY_CONTROLLERS
        and r.leader is not None
        and r.leader >= 0
        and len(r.isr or ()) > 1
        and r.partition_epoch is not None
    ]
    if not written:
        raise StartupError(f"the state-change logs hold no leadership of {topic}")
    return max(written, key=lambda r: (_known(r.controller_epoch), _known(r.partition_epoch)))


def _known(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


async def _run_audit(logs: Sequence[Path], output: Path) -> dict[str, Any]:
    arguments = [part for path in logs for part in ("--log-dir", str(path))]
    command = ["-P", "-m", "launcher", "audit", "run", *arguments, "--output", str(output), "--once", "-o", "json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        answer, messages = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        raise
    if process.returncode not in _EXIT_CODES_WITH_A_VERDICT:
        raise StartupError(f"the audit failed with exit code {process.returncode}: {messages.decode()[-2000:]}")
    result: dict[str, Any] = json.loads(answer)
    return result
