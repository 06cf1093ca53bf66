"""Configs of topics and brokers, each with its source."""

from collections.abc import Sequence
from typing import Any, Final

from cluster.requests.configs import DescribedConfig

_SOURCES: Final = {1: "topic", 2: "broker", 3: "default of brokers", 4: "file", 5: "built in"}


def config_documents(configs: Sequence[DescribedConfig]) -> list[dict[str, Any]]:
    return [
        {
            "name": c.name,
            "value": c.value,
            "source": _SOURCES.get(c.config_source, str(c.config_source)),
            "read_only": c.read_only,
        }
        for c in sorted(configs, key=lambda c: c.name)
    ]
