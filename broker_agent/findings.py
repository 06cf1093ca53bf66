"""What an agent found wrong and skips, for `cluster health`. Source: klamm (BD-4)."""

from collections.abc import Iterator

from broker_agent.ports import LogDirectories
from cluster.bounds import shortened
from cluster.broker import BrokerId
from cluster.requests.cluster import UNACCEPTABLE_DIRECTORY, Finding


def describe_findings(broker: BrokerId, logs: LogDirectories) -> Iterator[Finding]:
    """One finding per subdirectory of a log directory that cannot be a partition."""
    for directory, names in sorted(logs.unacceptable_names.items()):
        for name in names:
            yield Finding(
                UNACCEPTABLE_DIRECTORY,
                directory,
                f"{shortened(name)} cannot be a partition; nothing in it is touched: move it out of the log directory",
                broker=broker,
            )
