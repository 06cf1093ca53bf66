"""What is said of KLAMM_… variables that nothing reads: most often a name is misspelt, and would have no effect."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_PREFIX: Final = "KLAMM_"
_OF_TESTS: Final = "KLAMM_TEST_"
KNOWN: Final = frozenset(
    f"{_PREFIX}{name}"
    for name in (
        # Of clients.
        *("BOOTSTRAP", "CLUSTER", "CONTEXT", "CLIENT_ID", "COMMAND_CONFIG"),
        # Of controllers and brokers: the fields of their files.
        *("ID", "ZOOKEEPER", "LISTEN", "ADVERTISED", "CONTROL_LISTEN", "CONTROL_ADVERTISED", "EXTERNAL_LISTEN"),
        *("EXTERNAL_ADVERTISED", "METRICS_LISTEN", "DATA", "RACK", "SETTINGS"),
        # Of deploy/docker/.env, which compose reads; a shell may have them for it.
        *("IMAGE", "AUDIT_IMAGE", "BASE", "PORTS", "CERTIFICATES"),
    )
)
"""Stated here, because the modules that read them are imported only where they are needed."""


def unknown_variables(names: Iterable[str]) -> list[str]:
    """List a warning for each variable whose name looks like one of ours and is none."""
    wrong = sorted(
        name
        for name in names
        if name.upper().startswith(_PREFIX) and not name.startswith(_OF_TESTS) and name.upper() not in KNOWN
    )
    return [f"warning: the environment variable {name} has no effect{_nearest(name)}" for name in wrong]


def _nearest(name: str) -> str:
    # Without what they all begin with, which would make all of them similar.
    known = sorted(variable.removeprefix(_PREFIX) for variable in KNOWN)
    near = get_close_matches(name.upper().removeprefix(_PREFIX), known, n=1, cutoff=0.65)
    meant = f"; did you mean {_PREFIX}{near[0]}?" if near else ""
    return f": there is no such variable{meant}"
