"""Puts the page together, content, charts, styles and the charting library in one file, and writes it."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import vl_convert

from audit.report.html.build import content
from audit.report.html.charts import CHARTS
from audit.report.html.content import ReportContent
from audit.storage.file_store import Location

_FOLDER: Final = Path(__file__).parent
_MARK: Final = re.compile(r"/\*([A-Z]+)\*/")
"""Where a part stands in `page.html`."""


def write_report(output: Location, file: Path, expected_nodes: Sequence[str] = ()) -> Path:
    """Write the report, whole or not at all; return the file. Raises OutputError, and OSError if that fails."""
    text = page(content(output, time.time_ns() // 1_000_000, expected_nodes))
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)
    return file


def page(shown: ReportContent) -> str:
    """The file as text. What logs say is data in it, never markup or script."""
    parts = {
        "STYLE": (_FOLDER / "page.css").read_text(),
        "CONTENT": _embedded(shown),
        "CHARTS": _embedded({name: chart() for name, chart in CHARTS.items()}),
        "LIBRARY": _library(),
        "SCRIPT": (_FOLDER / "page.js").read_text(),
    }
    # In one pass: what a part says is no mark.
    return _MARK.sub(lambda mark: parts[mark[1]], (_FOLDER / "page.html").read_text())


def _embedded(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")


def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; it makes `vegaEmbed` global."""
    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
