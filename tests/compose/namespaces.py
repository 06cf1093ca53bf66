"""The processes of the secured compose stack without an engine, each in namespaces of its own, as in its container.

A process has its own network with one address, which the others know by its name; its own view of files, with the
folders that compose mounts; and the user, command and environment of its service.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.java import find_java
from deploy.local.zookeeper_jars import find_jars
from tests.processes.installations import ROOT
from tests.timeouts import TIMEOUT_S

DOCKER: Final = ROOT / "deploy" / "docker"
NODES: Final = tuple(f"{role}-{number}" for role in ("controller", "broker") for number in (1, 2, 3))
ENSEMBLE: Final = tuple(f"zookeeper-{number}" for number in (1, 2, 3))
SERVICES: Final = (*ENSEMBLE, *NODES, "cli")
_KLAMM: Final = str(ROOT / ".venv" / "bin" / "klamm")
_OF_IMAGE: Final = {
    "PATH": f"{ROOT / '.venv' / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
    "KLAMM_DATA": "/var/lib/klamm",
    "KLAMM_LISTEN": "0.0.0.0:9092",
    "KLAMM_CONTROL_LISTEN": "0.0.0.0:9093",
    "KLAMM_METRICS_LISTEN": "0.0.0.0:9404",
}
_USER: Final = {"zookeeper": 1000}
_USER_OF_IMAGE: Final = 10_001
_MADE: Final = ("certs", "conf", "data", "datalog", "jars", "var/lib/klamm")


def can_be_made() -> bool:
    """Whether this user may make namespaces, networks and layered file systems here."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip", "setpriv"))):
        return False
    probe = "ip link add v0 type veth peer name v1 && mount -t tmpfs none /mnt"
    return subprocess.run(["unshare", "-n", "-m", "sh", "-c", probe], capture_output=True, check=False).returncode == 0


def service(name: str) -> dict[str, Any]:
    """A service as `docker compose` makes it of both files: environments add up, a command replaces the other."""
    usual, secured = (
        yaml.safe_load((DOCKER / file).read_text())["services"][name]
        for file in ("compose.yaml", "compose.secured.yaml")
    )
    return {**usual, **secured, "environment": {**usual.get("environment", {}), **secured.get("environment", {})}}


class Stack:
    """The running processes. `folder`: what they write, with a log for each."""

    def __init__(self, folder: Path, certificates: Path) -> None:
        self.folder, self._certificates = folder, certificates
        self._host = subprocess.Popen(["unshare", "-n", "-m", "sleep", "infinity"])
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{self._address(name)} {name}\n" for name in SERVICES)
        )

    def _address(self, name: str) -> str:
        return f"10.99.0.{SERVICES.index(name) + 1}"

    def start(self) -> None:
        """Make the network, and start all but the cli."""
        self._in_host("ip link set lo up && ip link add br0 type bridge && ip link set br0 up")
        for name in (*ENSEMBLE, *NODES):
            self._start(name)

    def _start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = self._spawn(name, self._command(name), log)

    def klamm(self, *arguments: str, name: str = "cli", input_: str = "") -> subprocess.CompletedProcess[bytes]:
        """A command in a container of its own, as `docker compose run --rm cli` runs it."""
        process = self._spawn(name, [_KLAMM, *arguments], subprocess.PIPE, subprocess.PIPE)
        output, errors = process.communicate(input_.encode(), timeout=TIMEOUT_S)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def health(self, name: str) -> bool:
        """The health check of a container; one that has ended is started again, as `restart: unless-stopped` does."""
        if self._processes[name].poll() is not None:
            self._start(name)
            return False
        inside = ["nsenter", "-t", str(self._processes[name].pid), "-n", "-m", "--root", "--wd=/"]
        environment = self._environment(name)
        command = [*inside, "setpriv", f"--reuid={_USER_OF_IMAGE}", "--clear-groups", _KLAMM, "health"]
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._host.kill()
        self._host.wait()

    def _command(self, name: str) -> list[str]:
        if name in NODES:
            return [_KLAMM, *service(name)["command"]]
        java = str(find_java().executable)
        return [
            java,
            "-Xmx192m",
            "-cp",
            "/jars/*",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            "/conf/zoo.cfg",
        ]

    def _environment(self, name: str) -> Mapping[str, str]:
        if name in ENSEMBLE:
            return {"PATH": _OF_IMAGE["PATH"]}
        own = {key: str(value).replace("${KLAMM_PORTS}", "190") for key, value in service(name)["environment"].items()}
        return _OF_IMAGE | own

    def _spawn(self, name: str, command: list[str], output: Any, errors: Any = subprocess.STDOUT) -> Any:
        """Start a command in new namespaces, once its network is there."""
        user = _USER.get(name.partition("-")[0], _USER_OF_IMAGE)
        script = " && ".join(
            (
                *self._files(name, user),
                "until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done",
                f"ip link set lo up && ip addr add {self._address(name)}/24 dev eth0 && ip link set eth0 up",
                f"exec chroot root setpriv --reuid={user} --regid={user} --clear-groups --no-new-privs "
                f"--bounding-set=-all {shlex.join(command)}",
            )
        )
        process = subprocess.Popen(
            ["nsenter", "-t", str(self._host.pid), "-n", "-m", "unshare", "-n", "-m", "sh", "-ec", script],
            env=dict(self._environment(name)),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
        )
        self._connect(name, process)
        return process

    def _files(self, name: str, user: int) -> Iterator[str]:
        """What a container sees: this machine's files, read only, and its own folders."""
        own = self.folder / name
        yield f"mkdir -p {own} && mount -t tmpfs none {own} && cd {own} && mkdir upper work root"
        yield "mount -t overlay none -o lowerdir=/,upperdir=upper,workdir=work root"
        yield from (f"mkdir -p root/{folder}" for folder in _MADE)
        yield "mount --rbind /proc root/proc && mount --rbind /dev root/dev && mount -t tmpfs none root/tmp"
        yield f"mount --rbind {ROOT.parent} root{ROOT.parent}" if os.path.ismount(ROOT.parent) else "true"
        yield f"mount --bind {self.folder / 'hosts'} root/etc/hosts"
        yield f"mount --bind {self._certificates / name} root/certs"
        yield f"mount --bind {self.folder / 'conf'} root/conf && mount --bind {self.folder / 'jars'} root/jars"
        # Where Python may be installed.
        yield "chmod 755 root/root"
        yield f"chown {user} root/data root/datalog root/var/lib/klamm"
        if name in ENSEMBLE:
            yield f"echo {name[-1]} >root/data/myid"

    def _connect(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Give a process a cable to the bridge, once it has a network of its own."""
        number, outer = SERVICES.index(name), {os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", self._host.pid)}
        deadline = time.monotonic() + TIMEOUT_S
        while process.poll() is None and os.readlink(f"/proc/{process.pid}/ns/net") in outer:
            assert time.monotonic() < deadline, f"{name} has no network of its own"
            time.sleep(0.01)
        self._in_host(
            f"ip link del h{number} 2>/dev/null; ip link add h{number} type veth peer name p{number} && "
            f"ip link set h{number} master br0 up && ip link set p{number} netns {process.pid} name eth0"
        )

    def _in_host(self, script: str) -> None:
        subprocess.run(
            ["nsenter", "-t", str(self._host.pid), "-n", "-m", "sh", "-c", script], check=True, timeout=TIMEOUT_S
        )


@contextmanager
def stack(folder: Path) -> Iterator[Stack]:
    """Make certificates by the script, and start everything."""
    for made in ("conf", "jars"):
        (folder / made).mkdir(parents=True)
    for jar in find_jars():
        shutil.copy(jar, folder / "jars")
    config = (DOCKER / "zoo.secured.cfg").read_text().splitlines()
    # The provider of metrics is in the image, and not among these jars.
    lines = [line for line in config if not line.startswith("metricsProvider.")]
    (folder / "conf" / "zoo.cfg").write_text("\n".join(lines) + "\n")
    (folder / "conf" / "zoo.cfg").chmod(0o644)
    folder.chmod(0o755)
    subprocess.run(
        [DOCKER / "make-certificates", "certificates"], cwd=folder, env={**os.environ, "KLAMM": _KLAMM}, check=True
    )
    running = Stack(folder, folder / "certificates")
    try:
        running.start()
        yield running
    finally:
        running.end()
