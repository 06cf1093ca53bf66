"""Puts the page together: content, charts, styles and the charting library in one file."""

import re
from pathlib import Path
from typing import Final

import msgspec
import vl_convert

from audit.report.html.charts import CHARTS
from audit.report.html.content import Content

_FOLDER: Final = Path(__file__).parent
_MARK: Final = re.compile(r"/\*([A-Z]+)\*/")
"""Where a part stands in `page.html`."""


def page(content: Content) -> str:
    """The file as text. What logs say is data in it, never markup or script."""
    parts = {
        "STYLE": (_FOLDER / "page.css").read_text(),
        "CONTENT": _embedded(content),
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
