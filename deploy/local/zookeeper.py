"""A real ZooKeeper server of one node.

It runs in the foreground, as a process that `klamm up` or a person starts.
"""

import os
import socket
import ssl
import sys
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct

from cluster.model.errors import StartupError
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings
from deploy.local.java import find_java
from deploy.local.locked_jars import Say
from deploy.local.processes import choose_free_ports
from deploy.local.zookeeper_jars import find_jars

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOG_CONFIG: Final = """\
status = warn
appender.file.type = File
appender.file.name = file
appender.file.fileName = ${sys:klamm.log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""


class ServerTls(Struct, frozen=True):
    """TLS of a server, which then takes nothing else, and only clients with a certificate.

    `keystore`: its private key and certificate in PEM form. `truststore`: the authorities of its clients.
    """

    keystore: Path
    truststore: Path

    def probe(self) -> ssl.SSLContext:
        """Make what `is_serving` asks the server with: its own certificate. Raises ConfigError."""
        own = TlsSettings(keystore_location=str(self.keystore), truststore_location=str(self.truststore))
        return client_context(own)


class ServerSettings(Struct, frozen=True):
    """Settings that differ between an operator's server and a test's.

    Sessions expire at the first tick after their timeout, so a short tick detects failures sooner; the server raises
    session timeouts below `min_session_timeout_ms` (by default two ticks) to it.
    """

    tick_time_ms: int = 2000
    min_session_timeout_ms: int | None = None
    max_session_timeout_ms: int | None = None
    """Longer timeouts are lowered to it; None: 20 ticks."""
    # A limit, not a reservation: with 256 MB, 100,000 partitions would keep the garbage collector busy.
    heap_mb: int = 1024
    # Limits both requests and stored znodes; a transaction of many small writes counts as a whole.
    max_buffer_bytes: int = 16 * 1024 * 1024
    login_file: Path | None = None
    """A JAAS file whose section `Server` lists the users for SASL authentication; None: no users."""
    metrics_port: int | None = None
    """Where ZooKeeper's Prometheus provider serves its metrics on loopback; None: it does not. Needs `jars`."""
    jars: tuple[Path, ...] = ()
    """More classes: those of `zookeeper-prometheus-metrics`, and what it needs."""
    host: str = "127.0.0.1"
    """The address of this machine that it serves at."""
    tls: ServerTls | None = None
    warms_up: bool = False
    """Whether the JVM compiles busy code a second time: for servers under load for minutes. Others start with half the
    CPU.
    """


class ServerCommand(Struct, frozen=True):
    """The command of a server that is fully configured on disk."""

    arguments: tuple[str, ...]
    port: int
    folder: Path


def prepare(
    port: int | None, data: Path, settings: ServerSettings | None = None, say: Say = lambda _: None
) -> ServerCommand:
    """Write the configuration to `data` and return the command that starts the server.

    `port` None or 0 chooses a free one. `say` is told if jars have to be fetched. Raises StartupError if the port is in
    use, or Java or the jars are missing.
    """
    settings = ServerSettings() if settings is None else settings
    # What is missing is fetched, or named, before anything is written.
    java, jars = find_java(), find_jars(say)
    data.mkdir(parents=True, exist_ok=True)
    folder = data.resolve()
    chosen = _claim_port(port)
    (folder / "zoo.cfg").write_text(_server_config(folder, chosen, settings))
    (folder / "log4j2.properties").write_text(LOG_CONFIG)
    arguments = (
        str(java.executable),
        f"-Xmx{settings.heap_mb}m",
        "-XX:+UseSerialGC",
        *([] if settings.warms_up else ["-XX:TieredStopAtLevel=1"]),
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.net.preferIPv4Stack=true",
        "-Dzookeeper.jmx.log4j.disable=true",
        f"-Djute.maxbuffer={settings.max_buffer_bytes}",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Dklamm.log={folder / 'zookeeper.log'}",
        *(
            []
            if settings.login_file is None
            else [f"-Djava.security.auth.login.config={settings.login_file.resolve()}"]
        ),
        "-cp",
        os.pathsep.join([*jars, *map(str, settings.jars)]),
        MAIN_CLASS,
        str(folder / "zoo.cfg"),
    )
    return ServerCommand(arguments=arguments, port=chosen, folder=folder)


def run_foreground(port: int | None, data: Path, settings: ServerSettings, say: Say) -> NoReturn:
    """Run the server in this process, by exec, so that signals reach it. Prints the address first.

    Raises StartupError as `prepare` does.
    """
    command = prepare(port, data, settings, say)
    sys.stdout.write(f"127.0.0.1:{command.port}\n")
    sys.stdout.flush()
    os.execv(command.arguments[0], command.arguments)  # noqa: S606 - the program itself, with its arguments.


def is_serving(host: str, port: int, *, timeout_s: float = 2, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a ZooKeeper server at this address accepts client requests, under TLS if `tls` is given."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            connection = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
            with connection:
                connection.sendall(b"srvr")
                return b"Mode: " in connection.makefile("rb").read()
    except OSError:
        return False


def _server_config(folder: Path, port: int, settings: ServerSettings) -> str:
    lines = [
        f"dataDir={folder}",
        *_ports(port, settings),
        f"tickTime={settings.tick_time_ms}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=*",
        "autopurge.snapRetainCount=3",
        "autopurge.purgeInterval=1",
        "forceSync=yes",
    ]
    if settings.min_session_timeout_ms is not None:
        lines.append(f"minSessionTimeout={settings.min_session_timeout_ms}")
    if settings.max_session_timeout_ms is not None:
        lines.append(f"maxSessionTimeout={settings.max_session_timeout_ms}")
    if settings.login_file is not None:
        lines.append("authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
    if settings.metrics_port is not None:
        lines += [
            "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
            "metricsProvider.httpHost=127.0.0.1",
            f"metricsProvider.httpPort={settings.metrics_port}",
        ]
    return "\n".join(lines) + "\n"


def _ports(port: int, settings: ServerSettings) -> list[str]:
    tls = settings.tls
    if tls is None:
        return [f"clientPortAddress={settings.host}", f"clientPort={port}"]
    return [
        f"secureClientPortAddress={settings.host}",
        f"secureClientPort={port}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.clientAuth=need",
        "ssl.keyStore.type=PEM",
        f"ssl.keyStore.location={tls.keystore.resolve()}",
        "ssl.trustStore.type=PEM",
        f"ssl.trustStore.location={tls.truststore.resolve()}",
        # Files that are replaced are used without a restart, as klamm's own.
        "client.certReload=true",
    ]


def _claim_port(port: int | None) -> int:
    """The port, which was free a moment ago."""
    if not port:
        # Outside the ephemeral range, so that it is still free when the server is restarted.
        return choose_free_ports(1)[0]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise StartupError(
                f"port {port} is already in use or not allowed ({error.strerror}): choose another"
            ) from None
    return port


def log_tail(folder: Path) -> str:
    for name in ("zookeeper.log", "console.log"):
        log = folder / name
        if log.exists() and log.stat().st_size > 0:
            return log.read_text(errors="replace")[-2000:]
    return f"nothing was logged in {folder}"
