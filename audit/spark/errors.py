"""What Spark's errors say, on one line: Spark itself gives traces, and often not of what went wrong first."""

import re
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from cluster.model.errors import ClusterError

LOG: Final = "spark.log"
"""The file with everything that Spark says, in the output folder of the audit, or beside the checkpoint."""
_STARTED: Final = "---- klamm audit: Spark starts ----"
_TRACEBACK: Final = "Traceback (most recent call last):"
_JVM_EXITED: Final = "JAVA_GATEWAY_EXITED"
_STOPPED: Final = "stopped SparkContext"
_KILLED: Final = re.compile(r"Application has been killed\. Reason: (.+)")
_NO_MASTER: Final = "All masters are unresponsive"


class AuditFailedError(ClusterError):
    """Spark could not do it. `folder`: where its `spark.log` says more."""

    def __init__(self, why: str, folder: Path | None = None) -> None:
        super().__init__(why if folder is None else f"{why}; see {folder / LOG}")


def begin_log(log: Path) -> None:
    """Mark the beginning of a run in the log. Raises OSError."""
    with log.open("a") as file:
        file.write(f"{_STARTED}\n")


def explained(error: Exception, log: Path, master: str) -> str:
    """Explain what went wrong; if the error only says that Spark is gone, what its log says about that."""
    if _JVM_EXITED in str(error):
        return _last_error(log) or summary(error)
    if isinstance(error, (ConnectionError, Py4JNetworkError)):
        return "Spark's Java process has ended: it was killed, or had too little memory; the next run continues"
    if _STOPPED in str(error):
        return _why_stopped(log, master) or summary(error)
    return summary(error)


def summary(error: Exception) -> str:
    """The end of the innermost Python traceback, otherwise the first line with an error."""
    lines = str(error).splitlines()
    tracebacks = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if tracebacks:
        after = lines[tracebacks[-1] + 1 :]
        last = next((line for line in after if line and not line.startswith(" ")), "")
        return f"in a Python process of Spark: {last or lines[0].removesuffix(_TRACEBACK).strip()}"
    first = lines[0] if lines else type(error).__name__
    if first.startswith("An error occurred while calling") and len(lines) > 1:
        first = lines[1].removeprefix(": ")
    return first.removesuffix(" === Streaming Query ===")


def _last_error(log: Path) -> str:
    """Find what a JVM that could not start said last; empty if it said nothing."""
    return next((line for line in reversed(_lines(log)) if re.search(r"(Exception|Error)\b.*: \S", line)), "")


def _why_stopped(log: Path, master: str) -> str:
    """Find why the cluster ended the application; empty if it did not."""
    reasons = [found[1] for line in _lines(log) if (found := _KILLED.search(line))]
    if not reasons:
        return ""
    if reasons[-1].startswith(_NO_MASTER):
        return f"{master}: no Spark master answers there; is it running, and is this the URL that its log names?"
    return f"{master}: Spark ended the application: {reasons[-1]}"


def _lines(log: Path) -> list[str]:
    """The lines that the last Spark has written."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    starts = [number for number, line in enumerate(lines) if line == _STARTED]
    return lines[starts[-1] + 1 :] if starts else lines
