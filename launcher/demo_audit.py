"""The end of the demonstration: an audit of the logs, and of a tampered copy in which it must find a second leader."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from cluster.broker import BrokerId, PartitionEpoch
from cluster.errors import StartupError
from cluster.process.clock import SystemClock
from deploy.local.java import find_java, spark_environment
from state_log.histories import ONE_LEADER_PER_EPOCH
from state_log.reader import read_state_changes
from state_log.record import Cause, Kind, LoggedStateChange, StateChange, incarnation_id
from state_log.writer import FileStateChangeLog

INCOMPLETE: Final = "incomplete"
_WRITTEN_BY_CONTROLLERS: Final = (Kind.PARTITION, Kind.REPLICA, Kind.ISR)


class AuditOutcome(Struct):
    """What `klamm audit run` said of the logs as they are, and of the copy with the injected record.

    `gaps`: what was missing or malformed in the logs as they are. `failure`: why not all of it could be said; `verdict`
    is then that of what could be, or "incomplete".
    """

    verdict: str = INCOMPLETE
    records: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    injected: str = ""
    found: dict[str, int] = field(default_factory=dict)
    failure: str = ""

    @property
    def proves_something(self) -> bool:
        """Whether the injected second leader was found."""
        return ONE_LEADER_PER_EPOCH in self.found


def audit_twice(logs: Sequence[Path], topic: str, folder: Path) -> AuditOutcome:
    """Audit the logs, then a copy in `folder` with a second leader in one epoch, as `klamm audit run` does it.

    Both in one Spark, because it takes longer to get going than to audit either. A Spark that fails costs what it had
    still to say, and nothing that was said before.
    """
    from audit.job import run_audit
    from audit.session import AuditFailedError, start_session

    copy = folder / "logs-with-second-leader"
    copies = [copy / path.name for path in logs]
    for original, copied in zip(logs, copies, strict=True):
        shutil.copytree(original, copied)
    outcome = AuditOutcome(injected=inject_second_leader(copies, topic))
    try:
        os.environ.update(spark_environment(find_java(), Path(sys.prefix) / "klamm-java"))
        session = start_session(folder)
        try:
            as_written = run_audit(logs, folder / "audit", once=True, session=session)
            outcome.verdict, outcome.records = as_written.verdict, as_written.records
            outcome.findings = as_written.findings
            outcome.gaps = [f"{gap.what}: {gap.why}" for gap in as_written.incomplete]
            outcome.found = run_audit(copies, folder / "audit-of-second-leader", once=True, session=session).findings
        finally:
            session.stop()
    except (AuditFailedError, StartupError) as error:
        outcome.failure = str(error)
    return outcome


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
