"""Which commit the long suites name in their tables."""

import subprocess
from pathlib import Path


def described_commit() -> str:
    """The commit of the working tree, "-dirty" if it was changed; empty outside of a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    ran = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return ran.stdout.strip()
