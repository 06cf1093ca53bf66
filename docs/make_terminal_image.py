"""Write docs/images/terminal.svg: what a terminal shows of a cluster whose broker is killed. A real run, in a folder of
its own that is removed afterwards.

Run it after a change of what these commands print: .venv/bin/python docs/make_terminal_image.py
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import rich._export_format
from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parents[1]
IMAGE: Final = ROOT / "docs" / "images" / "terminal.svg"
WIDTH: Final = 112
_DEADLINE_S: Final = 120
_KILL: Final = "kill -9 $(klamm status -o json | jq '.brokers[] | select(.id == 1) | .pid')"
_PID: Final = "import json, sys; print(next(b['pid'] for b in json.load(sys.stdin)['brokers'] if b['id'] == 1))"
COMMANDS: Final = (
    "klamm up --brokers 3 --controllers 2 --detach",
    "klamm topics create orders --partitions 3 --replication-factor 3",
    "seq 10000 | klamm produce orders --acks all",
    _KILL,
    "klamm cluster health",
    "klamm topics describe orders",
    "klamm story {led_by_1} --limit 6",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
        environment["PATH"] = f"{ROOT}:{environment['PATH']}"
        console = Console(record=True, width=WIDTH, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        led = 0
        try:
            _shell("klamm --version", folder, environment)
            for template in COMMANDS:
                command = template.replace("{led_by_1}", f"orders-{led}")
                console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
                if output := _output(command, folder, environment).rstrip("\n"):
                    console.print(Text.from_ansi(output))
                if "topics create" in command:
                    led = _led_by_1(folder, environment)
        finally:
            _shell("klamm down", folder, environment)
    # Rich's own style loads a font from the network.
    style = re.sub(r"@font-face \{\{.*?\}\}", "", rich._export_format.CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    IMAGE.write_text(console.export_svg(title="klamm", code_format=style, unique_id="klamm"))


def _led_by_1(folder: str, environment: dict[str, str]) -> int:
    """A partition whose leader will be killed."""
    described = json.loads(_shell("klamm topics describe orders -o json", folder, environment))
    return int(next(p["partition"] for p in described["topics"][0]["partitions"] if p["leader"] == 1))


def _output(command: str, folder: str, environment: dict[str, str]) -> str:
    if command == _KILL:
        _shell(f'kill -9 $(klamm status -o json | python3 -c "{_PID}")', folder, environment)
        _wait_until_dead(folder, environment)
        return ""
    if "produce" in command:
        return _shell(command, folder, environment)  # Without the steps of its progress bar.
    # Tables fit a terminal only where there is one.
    return _shell(f"script -qec {shlex.quote(command)} /dev/null", folder, environment).replace("\r", "")


def _wait_until_dead(folder: str, environment: dict[str, str]) -> None:
    """Until the controller has elected other leaders."""
    deadline = time.monotonic() + _DEADLINE_S
    while "dead_broker" not in _shell("klamm cluster health -o json", folder, environment):
        if time.monotonic() > deadline:
            raise SystemExit("the controller has not noticed the death of the broker")
        time.sleep(0.5)


def _shell(command: str, folder: str, environment: dict[str, str]) -> str:
    done = subprocess.run(  # noqa: S602 - a fixed command.
        command,
        check=False,
        shell=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


if __name__ == "__main__":
    main()
