"""Recorded state-change.logs of Apache Kafka: whole clusters of several versions, and single nodes in scenarios."""

import os
import shutil
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

RECORDED = Path(__file__).parents[1] / "recorded" / "kafka"
DELETION = {
    "2.4.1-trace": "23:00:27",
    "2.8.2-trace": "23:02:49",
    "2.8.2-info": "23:10:28",
    "3.3.2-trace": "23:05:10",
    "3.9.1-trace": "23:12:10",
    "3.9.1-info": "23:14:37",
}
"""Recording of a cluster -> when its topic was deleted, to be created anew afterwards."""
GOVERNED = "3.9.1-under-klamm"
"""Recording of three brokers, at TRACE, and of klamm's controller that governed them: other names of files."""


def copy_cluster(recording: str, folder: Path, until: str = "99") -> Path:
    """The logs of a cluster's three brokers up to a time of day, last changed when they were written."""
    folder.mkdir(parents=True)
    for source in sorted((RECORDED / recording).glob("*.log")):
        kept = list(takewhile(lambda line: _is_before(line, until), source.read_bytes().splitlines(keepends=True)))
        write_log(folder / source.name, b"".join(kept))
    return folder


def copy_governed(folder: Path) -> Path:
    """The logs of Kafka's brokers and of klamm's controller that governed them."""
    copy_cluster(GOVERNED, folder)
    for source in (RECORDED / GOVERNED).glob("*.jsonl"):
        shutil.copy(source, folder)
    return folder


def _is_before(line: bytes, until: str) -> bool:
    return not line.startswith(b"[") or line[12:20].decode() < until


def copy_scenario(name: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    shutil.copy(RECORDED / "scenarios" / f"{name}.state-change.log", folder)
    return folder


def write_log(path: Path, content: bytes) -> None:
    """Write a log of a broker whose clock shows UTC; it was changed last when its last line was written."""
    path.write_bytes(content)
    times = [line[1:24].decode().replace(",", ".") for line in content.splitlines() if line.startswith(b"[2026")]
    if times:
        written = datetime.fromisoformat(max(times)).replace(tzinfo=ZoneInfo("UTC")).timestamp()
        os.utime(path, (written, written))
