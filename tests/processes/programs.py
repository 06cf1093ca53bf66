"""Programs of ours as single processes: from a configuration file to their end."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.timeouts import TIMEOUT_S

# Nobody here waits for the end of a session, and a busy machine must not bring it about.
LONG_SESSIONS: Mapping[str, object] = {
    "zookeeper.session.timeout.ms": 30_000,
    "zookeeper.connection.timeout.ms": TIMEOUT_S * 1000,
}
SHORT_TIMEOUT: Mapping[str, object] = {"zookeeper.connection.timeout.ms": 1000}
"""For a ZooKeeper that is not there."""


class Programs:
    """Starts programs on configurations that it writes into `folder`. `end` kills what still runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []

    def start(
        self, module: str, fields: Mapping[str, object], settings: Mapping[str, object]
    ) -> "subprocess.Popen[str]":
        """`module`: e.g. `controller`. Fields that are None are left out; `data` has a default. stderr is a pipe."""
        name = f"{module}-{len(self._processes)}"
        config = {"data": str(self._folder / name), **fields}
        lines = [f"{key} = {json.dumps(value)}" for key, value in config.items() if value is not None]
        lines += ["[settings]", *(f'"{key}" = {json.dumps(value)}' for key, value in settings.items())]
        path = self._folder / f"{name}.toml"
        path.write_text("\n".join(lines))
        command = [sys.executable, "-m", module, "--config", str(path)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
