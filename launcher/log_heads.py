"""Where the state-change logs of a cluster end: read from ZooKeeper, or asked of the nodes."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from admin.cli.options import run
from admin.cli.output import say
from admin.cli.target import Target, find_target
from admin.connecting.client import AdminClient
from adoption.command_config import read_command_config
from cluster.aio.clock import SystemClock
from cluster.config.config import check_zookeeper
from cluster.model.errors import (
    ApiError,
    ConfigError,
    MalformedZnodeError,
    PeerUnreachableError,
    StartupError,
    ZooKeeperError,
)
from cluster.requests.cluster import LogHead
from cluster.requests.control import StateLogHead
from cluster.tls.live import LiveMaterial
from cluster.znodes.paths import STATE_LOG, state_log_path
from cluster.znodes.state_log import decode_heads
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from state_log.heads_file import GivenHead, encode_heads_file
from state_log.witnessed_heads import why_malformed

_SESSION_MS: Final = 6_000
_CONNECT_MS: Final = 10_000
_TIMEOUT_S: Final = 10.0


def read_heads(
    zookeeper: str, bootstrap: str, tell: Callable[[str], None] = say, *, command_config: Path | None = None
) -> list[GivenHead]:
    """Read the heads in ZooKeeper and those of the nodes; "": not to be asked.

    `tell` gets what is left out, and why. `command_config`: how the nodes are called, None: as the environment says;
    and the identity for ZooKeeper, and its TLS. Raises ClusterError.
    """
    return run(_read(zookeeper, bootstrap, tell, command_config))


def write_heads(zookeeper: str, bootstrap: str, command_config: Path | None = None) -> None:
    """Write what `read_heads` returns to stdout, as `heads.json`. Raises ClusterError, also where there is no head."""
    found = read_heads(zookeeper, bootstrap, command_config=command_config)
    if not found:
        raise StartupError("nothing says where a state-change log ends: no head is written")
    sys.stdout.buffer.write(encode_heads_file(found))


async def _read(
    zookeeper: str, bootstrap: str, tell: Callable[[str], None], command_config: Path | None
) -> list[GivenHead]:
    found = await _from_zookeeper(zookeeper, tell, command_config) if zookeeper else []
    if bootstrap:
        found += await _from_nodes(find_target(bootstrap, command_config=command_config), tell)
    return found


async def _from_zookeeper(where: str, tell: Callable[[str], None], command_config: Path | None) -> list[GivenHead]:
    try:
        check_zookeeper(where)
    except ValueError as error:
        raise ConfigError([f"--zookeeper: {where!r}: {error}"]) from None
    config = read_command_config(command_config)
    # Without the chroot, which a client creates where it is missing: this only reads.
    hosts, _, chroot = where.partition("/")
    top = f"/{chroot}".rstrip("/")
    client = KazooZooKeeper(
        hosts,
        session_timeout_ms=_SESSION_MS,
        connection_timeout_ms=_CONNECT_MS,
        credentials=config.credentials,
        tls=None if config.zookeeper_tls is None else LiveMaterial(config.zookeeper_tls, "zookeeper"),
    )
    client.listen(lambda _: None)
    try:
        await client.start_session()
        nodes = await client.children(f"{top}{STATE_LOG}")
        znodes = await client.get_many([f"{top}{state_log_path(node)}" for node in nodes or ()])
    except ZooKeeperError as error:
        raise StartupError(f"--zookeeper: {where}: {error}") from error
    finally:
        await client.close()
    if nodes is None:
        raise StartupError(
            f"--zookeeper: {where}: has no {STATE_LOG}: is the chroot right, and has the cluster run for ten seconds?"
        )
    found = []
    for node, znode in zip(nodes, znodes, strict=True):
        try:
            heads = () if znode is None else decode_heads(node, znode.data)
        except MalformedZnodeError as error:
            tell(f"left out: {error}")
            continue
        found += _given(heads, -1 if znode is None else znode.stat.mtime, tell)
    return found


async def _from_nodes(target: Target, tell: Callable[[str], None]) -> list[GivenHead]:
    async with target.connect(_TIMEOUT_S, lambda notice: tell(notice.text)) as client:
        found: dict[str, StateLogHead] = {}
        silent: dict[str, None] = {}
        with client.within_timeout():
            addresses = await _addresses(client)
            questions = [(client.name(address), _heads_of(client, address)) for address in addresses]
            answers = await client.waiting.answers(questions, client.limits.left_s)
        for address, heads in zip(addresses, answers, strict=True):
            if isinstance(heads, str):
                tell(f"left out: {address}: {heads}")
                continue
            for head in heads:
                if head.flushed_seq < 0:
                    silent[head.node] = None
                    continue
                found[head.node] = StateLogHead(
                    head.node, head.incarnation, head.flushed_seq, head.flushed_digest, head.boot_id
                )
    for node in silent:
        if node not in found:
            tell(f"left out: {node}: has written nothing yet, in this run or an earlier one, or does not say so")
    return _given(found.values(), SystemClock().now_ms(), tell)


async def _heads_of(client: AdminClient, address: str) -> tuple[LogHead, ...] | str:
    """The heads at this address, or why there are none."""
    try:
        return await client.describe_log_heads(address)
    except PeerUnreachableError as error:
        return error.why
    except ApiError as error:
        return str(error)


async def _addresses(client: AdminClient) -> Sequence[str]:
    """Find the addresses of all known processes that write such a log."""
    described = await client.describe_cluster()
    if described.controller_address and not described.brokers:
        # A standby, which does not know the brokers.
        described = await client.describe_node(described.controller_address)
    return client.nodes_of(described)


def _given(heads: Iterable[StateLogHead], at_ms: int, tell: Callable[[str], None]) -> list[GivenHead]:
    found = []
    for head in heads:
        why = why_malformed(head)
        if why is not None:
            tell(f"left out: the head of {head.node[:40]!r}: {why}")
            continue
        found.append(GivenHead(head.node, head.incarnation, head.seq, head.digest, head.boot_id, at_ms))
    return found
