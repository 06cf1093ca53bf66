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
_LOOPBACK_OF: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_TIMEOUT_MIN_S: Final = 0.1
_TIMEOUT_MAX_S: Final = 3600.0
_RESPONSE_BYTES_MAX: Final = 16 << 10
_STATE_LENGTH_MAX: Final = 200
_OPTIONS: Final = {"--metrics": "metrics", "--config": "config", "--timeout": "timeout_s"}


class _NoAddressError(Exception):
    """The message says why there is no address to ask."""


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
        host, port = _address(metrics, config, os.environ)
    except _NoAddressError as error:
        sys.stderr.write(f"klamm: {error}\n")
        return _USAGE
    try:
        answer = _ask(host, port, timeout_s)
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


def _address(metrics: str, config: str, environment: Mapping[str, str]) -> tuple[str, int]:
    """Host and port of the metrics of the process: of the option, the variable, or the process's own file."""
    given, source = metrics, "--metrics"
    if not given:
        given, source = environment.get(VARIABLE, ""), VARIABLE
    if not given and config:
        given, source = _in_file(config), f"metrics_listen in {config}"
    if not given:
        raise _NoAddressError(
            "the metrics address of the process is not known: give --metrics HOST:PORT, the variable "
            f"{VARIABLE}, or --config FILE with metrics_listen"
        )
    host, _, port = given.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise _NoAddressError(f"{source}: {given!r}: must be host:port, with the port that the process was given")
    host = host.removeprefix("[").removesuffix("]")
    return _LOOPBACK_OF.get(host, host), int(port)


def _in_file(path: str) -> str:
    import tomllib

    try:
        with open(path, "rb") as file:
            return str(tomllib.load(file).get("metrics_listen", ""))
    except (OSError, ValueError) as error:
        raise _NoAddressError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _ask(host: str, port: int, timeout_s: float) -> _Answer:
    """GET /healthz. Raises OSError, TimeoutError among them; ValueError if the response is not HTTP."""
    deadline = time.monotonic() + timeout_s
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
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
