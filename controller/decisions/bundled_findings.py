"""Many findings of one kind as one, so that they do not bury the others (BD-11)."""

from collections.abc import Iterable, Iterator
from typing import Final

from cluster.requests.cluster import Finding

FINDINGS_OF_KIND: Final = 10
"""Of more, only the first are named."""
_NAMED: Final = 3


def bundled(found: Iterable[Finding]) -> Iterator[Finding]:
    """The findings by kind; where there are more than ten of a kind, one with their number and the first of them."""
    by_kind: dict[str, list[Finding]] = {}
    for finding in found:
        by_kind.setdefault(finding.kind, []).append(finding)
    for kind, findings in by_kind.items():
        if len(findings) > FINDINGS_OF_KIND:
            first = "; ".join(finding.detail for finding in findings[:_NAMED])
            yield Finding(kind, f"{len(findings)} of this kind, the first {_NAMED}: {first}")
        else:
            yield from findings
