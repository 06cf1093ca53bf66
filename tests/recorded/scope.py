"""Which scenarios are replayed on what."""

from tests.recorded.scenario import all_names

NOT_ON_REAL_PROCESSES = {
    "kill-all-together": "ZooKeeper ends sessions at its ticks: which of three that die together ends last is chance",
}
"""Replayed on twins only, whose sessions end in the order in which they were heard last."""

ON_REAL_PROCESSES = [name for name in all_names() if name not in NOT_ON_REAL_PROCESSES]
ON_TWINS = all_names()
