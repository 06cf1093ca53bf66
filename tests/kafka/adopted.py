"""Starts the controllers of klamm by the commands that `klamm adopt` prints, as an operator does who fills them in."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deploy.local.processes import choose_free_ports
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka.clusters import KafkaCluster
from tests.processes.commands import LAUNCHER

_PORT: Final = re.compile(r"(HOST|(?<=--listen )127\.0\.0\.1):(\d+)")
_OF_LISTENER: Final = re.compile(r"AUTHORITIES-OF-\S+?\.pem")
_FOLDER: Final = "/var/lib/klamm"


def filled_in(command: str, files: Mapping[str, str], folder: Path, host: str = "127.0.0.1") -> list[str]:
    """The arguments of a printed command. `files`: placeholder -> file. Ports become free ones: others share it."""
    ports = dict.fromkeys(_PORT.findall(command))
    free = dict(zip((port for _, port in ports), choose_free_ports(len(ports)), strict=True))
    text = _PORT.sub(lambda match: f"{host if match[1] == 'HOST' else match[1]}:{free[match[2]]}", command)
    text = _OF_LISTENER.sub("AUTHORITIES.pem", text)
    for placeholder, value in {_FOLDER: str(folder), **files}.items():
        text = text.replace(placeholder, value)
    arguments = shlex.split(text.replace("\\\n", " "))
    assert arguments[:2] == ["klamm", "controller"]
    return arguments[1:]


def start_printed(cluster: KafkaCluster, command: str, files: Mapping[str, str], folder: Path) -> int:
    """Start one controller as it was printed; its id."""
    arguments = filled_in(command, files, folder)
    id_ = int(arguments[arguments.index("--id") + 1])
    cluster.start(f"controller-{id_}", [*LAUNCHER, *arguments])
    return id_


def tree(zookeeper: str, *left_out: str) -> dict[str, tuple[bytes, int]]:
    """Every znode -> its content and who owns it, but for those that begin so."""
    found: dict[str, tuple[bytes, int]] = {}

    def walk(client: Any, path: str) -> None:
        data, stat = client.get(path or "/")
        found[path or "/"] = (data, stat.ephemeralOwner)
        for name in client.get_children(path or "/"):
            if not f"{path}/{name}".startswith(left_out):
                walk(client, f"{path}/{name}")

    with plain_client(zookeeper) as client:
        walk(client, "")
    return found
