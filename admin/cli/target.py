"""Finds the cluster that a command talks to: by options, then environment variables, then the current context."""

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from admin.cli.contexts_file import DEFAULT_DATA, Context, read_contexts
from admin.connecting.client import AdminClient
from admin.connecting.waiting import OnWait
from cluster.config.client_properties import ClientSecurity, read_client_security
from cluster.model import bounds
from cluster.model.errors import ConfigError, StartupError
from cluster.process.identity import GONE, state_of
from cluster.process.local_cluster import CERTIFICATES, CLIENT, LocalClusterState, client_tls_of, read_cluster_state

_BOOTSTRAP, _DATA, _CONTEXT = "KLAMM_BOOTSTRAP", "KLAMM_CLUSTER", "KLAMM_CONTEXT"
_BOOTSTRAP_OPTION = "--bootstrap"
_COMMAND_CONFIG = "KLAMM_COMMAND_CONFIG"
_CLIENT_ID = "KLAMM_CLIENT_ID"
_CLIENT_ID_LENGTH_MAX = 256


class Target(NamedTuple):
    """Names a cluster by addresses of its nodes or, without any, by the data folder of one on this machine.

    `origin`: the option or variable that gave the addresses, for messages. `command_config`: the file that says whether
    it is called under TLS; None: without, or as a cluster on this machine says.
    """

    bootstrap: str | None = None
    data: Path = DEFAULT_DATA
    origin: str = _BOOTSTRAP_OPTION
    command_config: Path | None = None

    def lacks_processes(self) -> bool:
        """Whether it is a cluster on this machine with a process that does not run."""
        if self.bootstrap is not None:
            return False
        return any(state_of(member.process) == GONE for member in read_cluster_state(self.data).members)

    def security(self) -> ClientSecurity:
        """Read how its nodes are called: without TLS, too, if the folder has no cluster. Raises ConfigError."""
        if self.command_config is not None:
            return read_client_security(self.command_config)
        if self.bootstrap is None:
            with suppress(StartupError):
                return ClientSecurity(client_tls_of(self.data, read_cluster_state(self.data)))
        return ClientSecurity()

    def tls_context(self) -> ssl.SSLContext | None:
        """The same for Python's own sockets, as those to ports for metrics. Raises ConfigError."""
        found = self.security().tls
        if found is None:
            return None
        from cluster.tls.contexts import client_context

        return client_context(found)

    def connect(self, timeout_s: float, on_wait: OnWait | None = None) -> AdminClient:
        """Make a client. Raises ConfigError for a malformed address, StartupError if the folder has no running cluster.

        `on_wait` is called with the reason for a long wait, as `say_wait` expects it.
        """
        timeout_ms, client_id = int(timeout_s * 1000), client_id_of(os.environ)
        security = self.security()
        if self.bootstrap is not None:
            addresses = parse_addresses(self.bootstrap)
            return AdminClient(
                addresses,
                timeout_ms=timeout_ms,
                origin=self.origin,
                on_wait=on_wait,
                client_id=client_id,
                tls=security.tls,
                sasl=security.sasl,
            )
        members = _running_cluster(self.data).nodes
        names = {member.address: f"{member.role} {member.id}" for member in members}
        return AdminClient(
            list(names),
            timeout_ms=timeout_ms,
            names=names,
            on_wait=on_wait,
            client_id=client_id,
            tls=security.tls,
            sasl=security.sasl,
        )


def client_id_of(environment: Mapping[str, str]) -> str:
    """Find the name by which brokers choose the quotas of a command. Raises ConfigError for what no header can have."""
    client_id = environment.get(_CLIENT_ID) or "klamm"
    if not (client_id.isascii() and client_id.isprintable() and len(client_id) <= _CLIENT_ID_LENGTH_MAX):
        raise ConfigError([f"{_CLIENT_ID}: {client_id[:20]!r}: must be up to {_CLIENT_ID_LENGTH_MAX} ASCII characters"])
    return client_id


def find_target(
    bootstrap: str | None = None,
    data: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    command_config: Path | None = None,
) -> Target:
    """Find the cluster that the options name, else the environment, else the current context.

    In each of them addresses take precedence over a folder, and a folder over a context. `command_config`: see Target;
    else that of the environment, else that of the context. Raises StartupError for an unknown context.
    """
    variables = os.environ if environment is None else environment
    given_config = command_config or (Path(variables[_COMMAND_CONFIG]) if variables.get(_COMMAND_CONFIG) else None)
    found = _find(bootstrap, data, context, variables)
    return found if given_config is None else found._replace(command_config=given_config)


def _find(bootstrap: str | None, data: Path | None, context: str | None, variables: Mapping[str, str]) -> Target:
    folder = variables.get(_DATA)
    given = (
        (_BOOTSTRAP_OPTION, bootstrap, data, context),
        (
            _BOOTSTRAP,
            variables.get(_BOOTSTRAP) or None,
            Path(folder) if folder else None,
            variables.get(_CONTEXT) or None,
        ),
    )
    for origin, addresses, path, name in given:
        if addresses is not None:
            return Target(addresses, origin=origin)
        if path is not None:
            return Target(data=path)
        if name is not None:
            return _of_context(name, read_contexts().named(name))
    contexts = read_contexts()
    return _of_context(contexts.current, contexts.named(contexts.current))


def parse_addresses(text: str, option: str = _BOOTSTRAP_OPTION) -> list[str]:
    """Parse `HOST:PORT[,HOST:PORT…]`. Raises ConfigError with all errors."""
    addresses = [a.strip() for a in text.split(",") if a.strip()]
    wrong = [a for a in addresses if not _is_address(a)]
    errors = [f"{option}: {a!r}: must be HOST:PORT with a port from 1 to 65535" for a in wrong]
    if not addresses:
        errors = [f"{option}: {text!r}: must be HOST:PORT[,HOST:PORT…]"]
    if errors:
        raise ConfigError(errors)
    return addresses


def _of_context(name: str, context: Context) -> Target:
    config = Path(context.command_config) if context.command_config else None
    if not context.bootstrap:
        return Target(data=Path(context.data), command_config=config)
    return Target(context.bootstrap, origin=f"the context {name}", command_config=config)


def _running_cluster(data: Path) -> LocalClusterState:
    """Read the cluster of a data folder. Raises StartupError if there is none, or none of its nodes is running."""
    state = read_cluster_state(data)
    if all(state_of(member.process) == GONE for member in state.nodes):
        where = "" if data == DEFAULT_DATA else f" --data {data}"
        if any(state_of(member.process) != GONE for member in state.kafka_brokers):
            secured = f" --command-config {data / CERTIFICATES / CLIENT}.properties" if state.is_secured else ""
            raise StartupError(
                "none of the controllers that 'klamm up' started runs, and Kafka's brokers may have one of their own; "
                f"start klamm's with 'klamm up --detach{where}', or name one that was started otherwise with "
                f"--bootstrap HOST:PORT{secured}"
            )
        raise StartupError(f"the cluster in {data} is stopped; start it with 'klamm up --detach{where}'")
    return state


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    number = bounds.parse_number(bounds.PORT, port)
    return bool(host and colon and number)
