"""Writes the HTML report of an output folder to a file."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from audit.report.html.build import content
from audit.report.html.page import page
from audit.storage.file_store import Location


def write_report(output: Location, file: Path, expected_nodes: Sequence[str] = ()) -> Path:
    """Write it, whole or not at all; returns the file. Raises OutputError, and OSError if it cannot be written."""
    text = page(content(output, time.time_ns() // 1_000_000, expected_nodes))
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)
    return file
