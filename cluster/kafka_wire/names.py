"""Python's names for Kafka's: modules and fields in snake case."""

import re
from typing import Final

_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """Convert `LeaderAndIsr` → `leader_and_isr`, `isKRaftController` → `is_kraft_controller`, `V0Host` → `v0_host`."""
    return _BOUNDARY.sub("_", name.replace("KRaft", "Kraft")).lower()
