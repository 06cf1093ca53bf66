"""What this machine allows, and the namespaces in which a run of the suite shuts itself in.

Where it may, the suite starts itself again in a user, network, mount and process namespace of its own: nothing that it
does to networks or disks reaches the machine, and with its first process everything that it started ends.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from tests.chaos import shim

_INSIDE: Final = "CHAOS_IS_ISOLATED"
_UNSHARE: Final = (
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)
_TRIES_NETWORK: Final = "ip link set lo up && ip tuntap add chaos0 mode tun && ip link delete chaos0"
_TRIES_MOUNTS: Final = "mount -t tmpfs -o size=1m chaos /mnt && umount /mnt"


class Capability(StrEnum):
    """What a fault needs beyond processes and signals."""

    NETWORK = "network"
    """A namespace per process, and TUN devices."""
    MOUNTS = "mounts"
    """A file system of bounded size per broker."""
    SHIM = "shim"
    """A C compiler, for the preload library."""


def isolate(module: str, arguments: Sequence[str]) -> None:
    """Start `python -m MODULE` again in namespaces, in place of this process; returns if that is impossible."""
    if (
        _INSIDE in os.environ
        or shutil.which("unshare") is None
        or subprocess.run([*_UNSHARE, "true"], check=False).returncode
    ):
        return
    command = [*_UNSHARE, sys.executable, "-m", module, *arguments]
    # gRPC would log each connection that a fault ends.
    os.execvpe(command[0], command, {"GRPC_VERBOSITY": "NONE", **os.environ, _INSIDE: "yes"})


def find_missing() -> Mapping[Capability, str]:
    """The capabilities that this process does not have, each with the reason."""
    missing = {}
    if _INSIDE not in os.environ:
        reason = "user namespaces are not available here (unshare --user --net --mount --pid)"
        missing |= {Capability.NETWORK: reason, Capability.MOUNTS: reason}
    else:
        for capability, script in ((Capability.NETWORK, _TRIES_NETWORK), (Capability.MOUNTS, _TRIES_MOUNTS)):
            tried = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
            if tried.returncode:
                missing[capability] = f"`{script}` fails: {tried.stderr.strip()}"
    if shim.compiler() is None:
        missing[Capability.SHIM] = "no C compiler (cc, gcc or clang)"
    return missing
