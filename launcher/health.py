"""`klamm health`: the health of one process, from its metrics port.

Imports the standard library only, and little of it: container engines run this every few seconds.
"""

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

_OK: Final = 0
_UNHEALTHY: Final = 1
_USAGE: Final = 2
"""`cluster.model.exit_codes`, without its import."""

DEFAULT_TIMEOUT_S: Final = 5.0
"""More than a process takes to find that its event loop is stuck."""
VARIABLE: Final = "KLAMM_METRICS_LISTEN"
_LOOPBACK_OF: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, or asked for by the operator.
_HTTPS: Final = "https://"
_TIMEOUT_MIN_S: Final = 0.1
_TIMEOUT_MAX_S: Final = 3600.0
_RESPONSE_BYTES_MAX: Final = 16 << 10
_STATE_LENGTH_MAX: Final = 200
_OPTIONS: Final = {"--metrics": "metrics", "--config": "config", "--timeout": "timeout_s"}


class _NoAddressError(Exception):
    """The message says why there is no address to ask."""


class _Port(NamedTuple):
    """Where the process serves its metrics. `is_secured`: whether under TLS; `keystore`: a PEM file with what it is
    shown, if there is one.
    """

    host: str
    port: int
    is_secured: bool = False
    keystore: str = ""


class _Answer(NamedTuple):
    status: int
    state: str


def plain_options(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Parse options with a value each into arguments for `report`; None for anything else, such as --help."""
    options: dict[str, Any] = {}
    for name, value in zip(arguments[::2], arguments[1::2], strict=False):
        if name not in _OPTIONS or value.startswith("-"):
            return None
        options[_OPTIONS[name]] = value
    try:
        if "timeout_s" in options:
            options["timeout_s"] = float(options["timeout_s"])
    except ValueError:
        return None
    if not _TIMEOUT_MIN_S <= options.get("timeout_s", DEFAULT_TIMEOUT_S) <= _TIMEOUT_MAX_S:
        return None
    return None if len(arguments) % 2 else options


def report(metrics: str = "", config: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
    """Print the state of the process, or on stderr what is wrong; returns the exit code."""
    try:
        asked = _address(metrics, config, os.environ)
    except _NoAddressError as error:
        sys.stderr.write(f"klamm: {error}\n")
        return _USAGE
    host, port = asked.host, asked.port
    try:
        answer = _ask(asked, timeout_s)
    except (OSError, ValueError) as error:
        why = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else error
        why = getattr(error, "strerror", None) or why
        sys.stderr.write(f"klamm: {host}:{port}: {why}\n")
        return _UNHEALTHY
    if answer.status != 200:
        sys.stderr.write(f"klamm: {host}:{port}: {answer.state}\n")
        return _UNHEALTHY
    sys.stdout.write(f"{answer.state}\n")
    return _OK


def _address(metrics: str, config: str, environment: Mapping[str, str]) -> _Port:
    """The port for metrics of the process: of the option, the variable, or the process's own file.

    Whether it has TLS says the file, or https:// before the address.
    """
    given, source = metrics, "--metrics"
    if not given:
        given, source = environment.get(VARIABLE, ""), VARIABLE
    if not given and config:
        given, source = _in_file(config)[0], f"metrics_listen in {config}"
    if not given:
        raise _NoAddressError(
            "the metrics address of the process is not known: give --metrics HOST:PORT, the variable "
            f"{VARIABLE}, or --config FILE with metrics_listen"
        )
    is_secured, keystore = _in_file(config)[1:] if config else (False, "")
    host, _, port = given.removeprefix(_HTTPS).rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise _NoAddressError(f"{source}: {given!r}: must be host:port, with the port that the process was given")
    host = host.removeprefix("[").removesuffix("]")
    return _Port(_LOOPBACK_OF.get(host, host), int(port), is_secured or given.startswith(_HTTPS), keystore)


def _in_file(path: str) -> tuple[str, bool, str]:
    """The address in a process's file, whether it has TLS, and the file with its key and certificate."""
    import json
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
        settings = content.get("settings", {})
        settings = dict(json.loads(settings) if isinstance(settings, str) else settings)
    except (OSError, ValueError, TypeError) as error:
        raise _NoAddressError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    protocols = str(settings.get("listener.security.protocol.map", "")).upper().replace(" ", "").split(",")
    keystore = str(settings.get("ssl.keystore.location", ""))
    is_pem = str(settings.get("ssl.keystore.type", "PEM")).upper() == "PEM" and "ssl.key.password" not in settings
    return str(content.get("metrics_listen", "")), "METRICS:SSL" in protocols, keystore if is_pem else ""


def _secured(plain: socket.socket, asked: _Port) -> socket.socket:
    """Speak TLS. The certificate of the process is not verified, as by Kubernetes: it is asked on this machine."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if asked.keystore:
        context.load_cert_chain(asked.keystore)
    return context.wrap_socket(plain)


def _ask(asked: _Port, timeout_s: float) -> _Answer:
    """GET /healthz. Raises OSError, TimeoutError among them; ValueError if the response is not HTTP."""
    deadline, host = time.monotonic() + timeout_s, asked.host
    plain = socket.create_connection((host, asked.port), timeout=timeout_s)
    with _secured(plain, asked) if asked.is_secured else plain as connection:
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while len(received) < _RESPONSE_BYTES_MAX:
            # For all of the response: one that trickles has no time of its own for each byte.
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            if not (part := connection.recv(4096)):
                break
            received += part
    return _parse(received)


def _parse(received: bytes) -> _Answer:
    """Parse an answer. Raises ValueError if it is none of a process of klamm: a state is one short line of visible
    characters.
    """
    head, _, body = received.decode(errors="replace").partition("\r\n\r\n")
    version, _, rest = head.partition(" ")
    state = body.strip()
    is_state = 0 < len(state) <= _STATE_LENGTH_MAX and state.isprintable()
    if not version.startswith("HTTP/") or rest[:3] not in ("200", "503") or not is_state:
        raise ValueError("what answers there is no klamm process")
    return _Answer(int(rest[:3]), state)
