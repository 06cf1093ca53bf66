"""Provoke every alert, ask every query of every dashboard, on a live cluster under Prometheus; print what came of it.

.venv/bin/python -m tests.observability            # some minutes
.venv/bin/python -m tests.observability --write    # also the tables of docs/dashboards.md
"""

import sys
import tempfile
from pathlib import Path

from tests.observability.run import run_all, write_documents

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        only = [argument for argument in sys.argv[1:] if argument != "--write"]
        result = run_all(Path(folder), say=lambda line: sys.stdout.write(f"{line}\n") and sys.stdout.flush(), only=only)
    if "--write" in sys.argv:
        write_documents(result)
    sys.exit(1 if result.failures else 0)
