"""Which scenarios are replayed on what."""

from tests.recorded.scenario import all_names

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

ON_REAL_PROCESSES = [name for name in all_names() if name not in NOT_ON_REAL_PROCESSES]
ON_TWINS = [name for name in all_names() if name not in NOT_ON_TWINS]
