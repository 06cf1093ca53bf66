"""A key distribution center of MIT Kerberos on loopback, with a realm of its own, principals and keytabs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from deploy.local.processes import choose_free_ports
from tests.processes.local_clusters import eventually

REALM: Final = "KLAMM.EXAMPLE"
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local")
_ADMIN_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def needs_kerberos() -> None:
    """Skip the test, visibly, where the extra or the programs of a center are not installed."""
    pytest.importorskip("gssapi", reason="the extra 'kerberos' of klamm is not installed")
    lacks = [name for name in _PROGRAMS if shutil.which(name, path=_ADMIN_PATH) is None]
    if lacks:
        pytest.skip(f"there is no {', '.join(lacks)}: install MIT Kerberos' KDC (Debian: krb5-kdc, krb5-admin-server)")


def write_config(path: Path, port: int, lifetime: str = "10h") -> None:
    """Write the krb5.conf of a center at this port of this machine, asked by TCP."""
    path.write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\nrdns = false\n"
        f"dns_canonicalize_hostname = false\nudp_preference_limit = 1\nticket_lifetime = {lifetime}\n"
        f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{port}\n}}\n"
    )


class Kdc:
    """`environment`: with which programs find it. Tickets last `lifetime`, as kadmin writes it."""

    def __init__(self, folder: Path, lifetime: str = "10h") -> None:
        self.folder, self.port = folder, choose_free_ports(1)[0]
        self.config = folder / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "PATH": _ADMIN_PATH,
        }
        folder.mkdir(parents=True, exist_ok=True)
        self._write(lifetime)
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self._process: subprocess.Popen[bytes] | None = None

    def _write(self, lifetime: str) -> None:
        folder = self.folder
        write_config(self.config, self.port, lifetime)
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{self.port}\nkdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n{REALM} = {{\n database_name = {folder}/principal\n key_stash_file = {folder}/stash\n"
            f" acl_file = {folder}/kadm5.acl\n max_life = {lifetime}\n supported_enctypes = aes256-cts:normal\n}}\n"
            f"[logging]\nkdc = FILE:{folder}/kdc.log\n"
        )

    def start(self) -> None:
        """Returns when it listens."""
        with (self.folder / "kdc.out").open("ab") as log:
            command = [self._find("krb5kdc"), "-n", "-r", REALM, "-P", str(self.folder / "kdc.pid")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._env())
        log_file = self.folder / "kdc.log"
        before = log_file.read_text().count("commencing operation") if log_file.exists() else 0
        eventually(
            lambda: log_file.exists() and log_file.read_text().count("commencing operation") > before, "the KDC listens"
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def keytab(self, name: str, *principals: str) -> Path:
        """Make principals with random keys, if they are not there yet, and put new keys of them into a file."""
        path = self.folder / f"{name}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}")
        path.chmod(0o600)
        return path

    def _find(self, program: str) -> str:
        found = shutil.which(program, path=_ADMIN_PATH)
        assert found is not None
        return found

    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([self._find(program), *arguments], check=True, capture_output=True, env=self._env(), timeout=60)


@contextmanager
def running_kdc(folder: Path, lifetime: str = "10h") -> Iterator[Kdc]:
    needs_kerberos()
    kdc = Kdc(folder, lifetime)
    kdc.start()
    try:
        yield kdc
    finally:
        kdc.stop()
