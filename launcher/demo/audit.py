"""The end of the demonstration: an audit of the logs, and of a tampered copy in which it must find a second leader."""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Final

import msgspec
from msgspec import Struct, field

from cluster.aio.clock import SystemClock
from cluster.model.broker import BrokerId, PartitionEpoch
from cluster.model.errors import DECODE_ERRORS, StartupError
from state_log.heads_file import GivenHead, encode_heads_file
from state_log.histories import ONE_LEADER_PER_EPOCH
from state_log.reader import read_state_changes
from state_log.record import Cause, Kind, LoggedStateChange, StateChange, incarnation_id
from state_log.writer import FileStateChangeLog

INCOMPLETE: Final = "incomplete"
AUDIT_FOLDER: Final = "audit"
REQUEST_FILE, FINISH_FILE, OUTCOME_FILE = "request.json", "finish", "outcome.json"
HEADS_FILE: Final = "heads.json"
REPORT_FILE: Final = "audit.html"
LOG_FILE: Final = "audit.log"
_APPLICATION: Final = Path(__file__).resolve().parents[2]
_TIMEOUT_S: Final = 600.0
_WRITTEN_BY_CONTROLLERS: Final = (Kind.PARTITION, Kind.REPLICA, Kind.ISR)


class AuditOutcome(Struct):
    """The result of `klamm audit run` on the logs as they are, and on the copy with the injected record.

    `gaps`: what was missing or malformed in the logs as they are. `open_ends`: see AuditResult. `failure`: why not all
    of it could be said; `verdict` is then that of what could be, or "incomplete". `html`: the file of the report.
    """

    verdict: str = INCOMPLETE
    records: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    open_ends: dict[str, int] = field(default_factory=dict)
    html: str = ""
    injected: str = ""
    found: dict[str, int] = field(default_factory=dict)
    failure: str = ""

    @property
    def proves_something(self) -> bool:
        """Whether the injected second leader was found."""
        return ONE_LEADER_PER_EPOCH in self.found


class AuditRequest(Struct, frozen=True):
    """The folders of the logs to follow, and of the copies to audit after them."""

    logs: list[str]
    copies: list[str]


def auditor(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command and environment of the process; in a wheel its modules are on no path by themselves."""
    command = [sys.executable, "-P", "-m", "launcher.demo.auditor", str(folder)]
    return command, {**os.environ, "PYTHONPATH": str(_APPLICATION)}


class BackgroundAudit:
    """A process that follows the logs from now on, because Spark takes longer to start than to audit them.

    It ends with `finish` or `stop`, and by itself when this process is gone.
    """

    def __init__(self, logs: Sequence[Path], folder: Path) -> None:
        self._logs, self._folder = logs, folder
        copy = folder / "logs-with-second-leader"
        self._copies = [copy / path.name for path in logs]
        request = AuditRequest([str(path) for path in logs], [str(path) for path in self._copies])
        write_whole(folder / REQUEST_FILE, request)
        command, environment = auditor(folder)
        with (folder / LOG_FILE).open("ab") as log:
            # In a session of its own: Ctrl-C is for the demonstration, which ends this process afterwards.
            self._process = Popen(
                command, stdin=DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def finish(self, topic: str, heads: Sequence[GivenHead]) -> AuditOutcome:
        """Conclude: audit the rest of the logs, which are complete now, and a copy of them with a second leader.

        `heads`: where the logs ended, as the nodes said while they ran.
        """
        for original, copied in zip(self._logs, self._copies, strict=True):
            shutil.copytree(original, copied)
        injected = inject_second_leader(self._copies, topic)
        (self._folder / HEADS_FILE).write_bytes(encode_heads_file(heads))
        (self._folder / FINISH_FILE).touch()
        try:
            self._process.wait(_TIMEOUT_S)
            outcome = msgspec.json.decode((self._folder / OUTCOME_FILE).read_bytes(), type=AuditOutcome)
        except TimeoutExpired:
            outcome = AuditOutcome(failure=f"it did not end within {_TIMEOUT_S:g} s: {self._folder / LOG_FILE}")
        except (OSError, *DECODE_ERRORS) as error:
            outcome = AuditOutcome(failure=f"its process ended without a result: {error}: {self._folder / LOG_FILE}")
        outcome.injected = injected
        return outcome

    def stop(self) -> None:
        """Kill the process group, if it still runs."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def write_whole(path: Path, value: Struct) -> None:
    """Write JSON that a reader finds complete or not at all."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(value))
    temporary.replace(path)


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
                topic_id=genuine.topic_id,
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
