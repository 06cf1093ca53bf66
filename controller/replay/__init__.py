"""Replays the decisions of state-change logs: what `controller.decisions` makes of the state that a log shows."""
