"""Asks `klamm cluster health` again and again, and keeps what it says: a line of JSON per answer.

As a program, so that neither its work nor its event loop is in the way of the producers:
`python -m tests.chaos.health_monitor HOST:PORT,… FILE`. A line: monotonic seconds at the beginning and the end, exit
code, and what was named.
"""

import faulthandler
import json
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from typer.testing import CliRunner

from launcher.__main__ import app

_PAUSE_S: Final = 1.0
_TIMEOUT_S: Final = 4
HANGS_S: Final = 40.0
"""A command that takes so long beyond its own timeout hangs; where, its stacks tell."""


class Answer(NamedTuple):
    """One answer: exit code 0 without a finding, 3 with findings, 1 with the reason why there was no answer.

    `brokers`: how many are registered.
    """

    begin: float
    end: float
    code: int
    named: list[str]
    brokers: int

    @property
    def is_healthy(self) -> bool:
        return self.code == 0


def ask(bootstrap: str) -> Answer:
    begin = time.monotonic()
    command = ["cluster", "health", "-o", "json", "--bootstrap", bootstrap, "--timeout", str(_TIMEOUT_S)]
    outcome = CliRunner().invoke(app, command)
    if outcome.exit_code not in (0, 3):
        named = [outcome.stderr.strip() or repr(outcome.exception)]
        return Answer(begin, time.monotonic(), outcome.exit_code, named, 0)
    document = json.loads(outcome.stdout)
    named = sorted({f"{f['kind']} {f['topic'] or f['broker']}: {f['detail']}" for f in document["findings"]})
    return Answer(begin, time.monotonic(), outcome.exit_code, named, document["counts"]["brokers"])


def read_answers(file: Path) -> list[Answer]:
    """All complete lines of a file."""
    if not file.exists():
        return []
    return [Answer(*json.loads(line)) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def main(bootstrap: str, file: Path) -> None:
    with file.open("a", buffering=1) as answers:
        while True:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            answers.write(json.dumps(ask(bootstrap)) + "\n")
            time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
