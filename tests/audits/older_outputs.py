"""Outputs of audits as another version of klamm has left them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

BUCKETS_2 = 16
"""Version 2 divided partitions into so many buckets."""
SINCE_3 = ("bucket_count", "rebuilds", "rules", "must_rebuild")


def rewrite_commits(output: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change all commits, and give them the hashes that belong to that."""
    for path in (output / "commits").iterdir():
        commit = json.loads(path.read_bytes())["commit"]
        change(commit)
        text = json.dumps(commit, separators=(",", ":"))
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        path.write_text(f'{{"digest":"{digest}","commit":{text}}}')


def make_version_2(output: Path) -> None:
    """Leave out what version 3 has added. The output must have been written with `BUCKETS_2`."""

    def change(commit: dict[str, Any]) -> None:
        commit["version"] = 2
        for name in SINCE_3:
            commit.pop(name)

    rewrite_commits(output, change)


def make_version(output: Path, version: int) -> None:
    """Say that commits are of this version, and change nothing else."""
    rewrite_commits(output, lambda commit: commit.update(version=version))
