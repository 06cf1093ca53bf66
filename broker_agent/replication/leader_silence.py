"""Since when a leader has owed a follower an answer, and why the last attempt to ask it failed."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import structlog

from cluster.model.broker import BrokerId
from cluster.model.printable import counted
from cluster.requests.cluster import Finding

UNANSWERED_FETCHES: Final = "unanswered_fetches"
UNANSWERED_MAX_S: Final = 3
"""A connection that only broke is back by then. An attempt fails when the connection has acknowledged nothing for four
seconds, or is refused: a leader that is paused for less, or slow, is no finding.
"""
_log = structlog.stdlib.get_logger()


class LeaderSilence:
    """Of one fetcher, in times of the event loop."""

    def __init__(self, leader: BrokerId) -> None:
        self.leader = leader
        self.since: float | None = None
        """When the oldest request without an answer was sent."""
        self.why: str | None = None
        """Of the last attempt, if it failed; None while it may just be slow."""
        self.answered_at: float | None = None
        """When it answered last."""

    def asked(self, now: float) -> None:
        if self.since is None:
            self.since = now

    def answered(self, now: float) -> None:
        self.since = self.why = None
        self.answered_at = now

    def failed(self, error: Exception) -> None:
        """The attempt got no answer. The first of a row is logged; all others would say the same."""
        is_first, self.why = self.why is None, str(error) or "timed out"
        if is_first:
            _log.warning("Fetching from the leader failed; retrying", leader=self.leader, error=self.why)


class Unanswered(NamedTuple):
    """A fetcher that waits: how many partitions it fetches."""

    silence: LeaderSilence
    partitions: int


def silence_findings(own_id: BrokerId, waiting: Iterable[Unanswered], now: float) -> Iterator[Finding]:
    """Yield one for each leader that an attempt did not reach and that has owed an answer for too long."""
    by_leader: dict[BrokerId, list[Unanswered]] = {}
    for unanswered in waiting:
        by_leader.setdefault(unanswered.silence.leader, []).append(unanswered)
    for leader, fetchers in sorted(by_leader.items()):
        failed = [(f.silence.since, f.silence.why) for f in fetchers if f.silence.why is not None]
        since, why = min(((s, w) for s, w in failed if s is not None), default=(now, None))
        if now - since > UNANSWERED_MAX_S:
            partitions = counted(sum(f.partitions for f in fetchers if f.silence.why is not None), "partition")
            detail = (
                f"broker {own_id} follows broker {leader} in {partitions}, and has had no answer from it for "
                f"{now - since:.0f} s; the last attempt: {why}; if both brokers are well, see the network between them"
            )
            yield Finding(UNANSWERED_FETCHES, detail, broker=own_id)
