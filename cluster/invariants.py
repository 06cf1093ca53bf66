"""Named truths over state-change records: pure functions, shared by simulator, tests and audit."""
