"""The servers of an ensemble know each other by certificates, with the settings of the secured compose stack."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.tls.authority import client, write_certificates, zookeeper
from deploy.local.java import find_java
from deploy.local.processes import choose_free_ports
from deploy.local.zookeeper import LOG_CONFIG, MAIN_CLASS, is_serving
from deploy.local.zookeeper_jars import find_jars
from tests.processes.installations import ROOT
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.real, pytest.mark.deep]
SERVERS: Final = (1, 2, 3)
DEPLOYED: Final = (ROOT / "deploy" / "docker" / "zoo.secured.cfg").read_text().splitlines()
Start = Callable[[int, Path], subprocess.Popen[bytes]]


class Ensemble:
    """Three servers of which each may have any certificates. `ports`: for clients, by server."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._java, self._jars = folder, find_java(), find_jars(lambda _: None)
        chosen = choose_free_ports(3 * len(SERVERS))
        self.ports = dict(zip(SERVERS, chosen, strict=False))
        self._peers = [f"server.{n}=127.0.0.1:{chosen[2 * n + 1]}:{chosen[2 * n + 2]}" for n in SERVERS]
        self.election_port = chosen[4]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, certificates: Path) -> None:
        """`certificates`: the folder with `zookeeper.pem` and `ca.pem` that is mounted at /certs/quorum."""
        folder = self._folder / f"server-{number}"
        folder.mkdir(exist_ok=True)
        (folder / "myid").write_text(str(number))
        (folder / "log4j2.properties").write_text(LOG_CONFIG)
        of_quorum = [line.replace("/certs/quorum", str(certificates)) for line in DEPLOYED if "uorum" in line]
        own = ["tickTime=500", "initLimit=20", "syncLimit=10", "admin.enableServer=false", "4lw.commands.whitelist=*"]
        own += [f"dataDir={folder}", f"clientPort={self.ports[number]}", "clientPortAddress=127.0.0.1"]
        (folder / "zoo.cfg").write_text("\n".join([*own, *of_quorum, *self._peers]) + "\n")
        logging = (
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            f"-Dklamm.log={folder / 'zookeeper.log'}",
        )
        java = (str(self._java.executable), "-Xmx128m", *logging, "-cp", os.pathsep.join(self._jars), MAIN_CLASS)
        with (folder / "console.log").open("ab") as console:
            command = [*java, str(folder / "zoo.cfg")]
            self.processes[number] = subprocess.Popen(command, stdout=console, stderr=console)

    def is_member(self, number: int) -> bool:
        return is_serving("127.0.0.1", self.ports[number])

    def is_refused(self, number: int) -> bool:
        """Whether it tried to reach the others, and could not."""
        log = self._folder / f"server-{number}" / "zookeeper.log"
        return log.exists() and "SSLHandshakeException" in log.read_text() and not self.is_member(number)

    def stop(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path)
    try:
        yield made
    finally:
        for number in made.processes:
            made.stop(number)


def test_only_who_has_a_certificate_of_their_authority_joins_the_servers(ensemble: Ensemble, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        write_certificates(folder, [zookeeper(), client("alice")], days=1)
    for number in (1, 2):
        ensemble.start(number, ours)
    eventually(lambda: ensemble.is_member(1) and ensemble.is_member(2), "two of three serve")
    ensemble.start(3, theirs)
    eventually(lambda: ensemble.is_refused(3), "a stranger is refused")
    ensemble.stop(3)
    ensemble.start(3, ours)
    eventually(lambda: ensemble.is_member(3), "the third serves")
