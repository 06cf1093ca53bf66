"""Which scenarios are replayed, and what each of the others waits for.

Whoever builds one of the missing parts takes its lines out of `WAITING_FOR`.
"""

from tests.recorded.scenario import all_names

CONTROLLED_SHUTDOWN = "controlled shutdown"

WAITING_FOR = {
    "controlled-shutdown-follower": CONTROLLED_SHUTDOWN,
    "controlled-shutdown-leader": CONTROLLED_SHUTDOWN,
    "controlled-shutdown-rf1": CONTROLLED_SHUTDOWN,
    "stop-and-start-at-once": CONTROLLED_SHUTDOWN,
}

HANGS = "a node that hangs: a twin's timers would go on"

NOT_ON_TWINS = {
    "follower-pause": HANGS,
    "follower-pause-expired": HANGS,
    "isr-change-controller-hangs": HANGS,
    "leader-pause-short": HANGS,
    "zombie-controller": HANGS,
}
"""Replayed on real processes only."""

NOT_ON_REAL_PROCESSES = {
    "kill-all-together": "ZooKeeper ends sessions at its ticks: which of three that die together ends last is chance",
}
"""Replayed on twins only, whose sessions end in the order in which they were heard last."""

IN_SCOPE = [name for name in all_names() if name not in WAITING_FOR]
ON_REAL_PROCESSES = [name for name in IN_SCOPE if name not in NOT_ON_REAL_PROCESSES]
ON_TWINS = [name for name in IN_SCOPE if name not in NOT_ON_TWINS]
