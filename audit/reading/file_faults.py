"""Findings about files that are not as they were when they were read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from audit.reading.changed_files import FaultKind, FileFault
from audit.reading.lines_read import ReadRange
from audit.records.findings import AuditFinding

LOG_SHRANK: Final = "log-shrank"
LOG_VANISHED: Final = "log-vanished"
LOG_CHANGED: Final = "log-changed"


def faults_found(unread: dict[str, FileFault], faults: Sequence[FileFault]) -> list[AuditFinding]:
    """The findings about these faults. Files with nothing to read are added to `unread`, by log."""
    found = []
    for fault in sorted(faults, key=lambda fault: (fault.file, fault.fault)):
        name = Path(fault.file).name
        match fault.fault:
            case FaultKind.EMPTY | FaultKind.COMPRESSED | FaultKind.NO_FILE | FaultKind.UNREADABLE | FaultKind.LINK:
                unread[fault.log] = fault
            case FaultKind.SHRANK:
                message = f"{name} has {fault.size} bytes, and {fault.read} bytes of it were read"
                found.append(AuditFinding(LOG_SHRANK, f"log {fault.log}", message, ()))
            case FaultKind.VANISHED:
                message = f"{fault.log} is not there any more, and nothing follows what was read of it"
                found.append(AuditFinding(LOG_VANISHED, f"log {fault.log}", message, ()))
            case FaultKind.CHANGED:
                message = f"{name} was changed after it was read: its lines are no whole chain any more"
                found.append(AuditFinding(LOG_CHANGED, f"log {fault.log} file {name}", message, ()))
    return found


def converted_found(read: Sequence[ReadRange]) -> list[AuditFinding]:
    """The findings about files whose line ends were converted, one for each."""
    found = {}
    for part in read:
        if part.converted:
            path = Path(part.file)
            subject = f"log {part.log} file {path.name}"
            found[path.name] = AuditFinding(LOG_CHANGED, subject, converted_message(path), ())
    return [found[name] for name in sorted(found)]


def why_unread(fault: FileFault) -> str:
    """Say what is wrong with a file of which nothing was read, in words."""
    if fault.fault is FaultKind.COMPRESSED:
        return "is compressed: unpack it beside the others"
    if fault.fault is FaultKind.NO_FILE:
        return "is no file, though it has the name of a log"
    if fault.fault is FaultKind.LINK:
        return "is a link to a folder, and such links are not followed: name the folder itself by --log-dir"
    if fault.fault is FaultKind.UNREADABLE:
        return "cannot be read: look at its permissions, and at the disk"
    return without_lines(fault.size)


def without_lines(size: int) -> str:
    """Say what is wrong with a file of this size that has no line, in words."""
    return "is empty" if not size else f"has {size} bytes and no complete line"


def converted_message(path: Path) -> str:
    """Say what is wrong with a file that has CR LF line ends, in words."""
    return f"lines of {path.name} end with CR LF, which klamm does not write: something has converted the file"
