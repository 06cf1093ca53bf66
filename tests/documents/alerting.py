"""The configuration of Alertmanager that docs/alerts.md shows."""

import re
from typing import Final

from tests.documents.pages import ROOT

_BLOCK: Final = re.compile(r"^## Send alerts to a person$.*?^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def alertmanager_configuration(webhook: str) -> str:
    """As it is shown, with another URL of the webhook, and without a wait for more alerts."""
    found = _BLOCK.search((ROOT / "docs/alerts.md").read_text("utf-8"))
    assert found is not None, "docs/alerts.md shows no configuration of Alertmanager"
    text = re.sub(r"(?<=url: )\S+", webhook, found[1])
    return re.sub(r"(?<=group_wait: )\S+", "1s", text)
