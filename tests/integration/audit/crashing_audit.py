"""Runs an audit that dies at a point of its first batch after the last one: `crashing_audit.py POINT LOGS OUTPUT`.

Points: `tables` (a batch has written all, and not committed), `commit` (it has, but Spark's checkpoint does not know),
`never`.
"""

import os
import sys
from pathlib import Path

from audit.job import run_audit
from audit.output_folder import Commit, OutputFolder

BATCH_BYTES = 40_000


def main(point: str, logs: Path, output: Path) -> None:
    commit_batch = OutputFolder.commit

    def commit_and_die(self: OutputFolder, commit: Commit) -> None:
        if point == "commit":
            commit_batch(self, commit)
        os._exit(9)

    if point != "never":
        OutputFolder.commit = commit_and_die  # type: ignore[method-assign]
    run_audit([logs], output, once=True, batch_bytes=BATCH_BYTES)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
