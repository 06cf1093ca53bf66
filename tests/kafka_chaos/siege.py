"""Clients without rights that ask every node of a secured cluster for everything, for as long as a round lasts."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from cluster.process.local_cluster import CONTROLLER
from cluster.sasl.clients import ClientCredentials
from cluster.tls.secret import Secret
from cluster.tls.settings import AUTHORITY
from tests.kafka.attacks import CLOSED, SHOWS_NOTHING, Attacker, attacks
from tests.kafka_chaos.faults import On
from tests.kafka_chaos.secured import APP, EVE, MECHANISM, SecuredChaosCluster, password_of
from tests.processes.commands import run_klamm

STOLEN: Final = "stolen"
"""The topic that they want."""
_PAUSE_S: Final = 0.2
_REFUSED: Final = {29, 30, 31, 53}
"""Authorization failed, for one kind of resource or another."""
_NOT_NOW: Final = {7, 8, 13, 14, 15, 41, 89}
"""Errors of a node that cannot answer at the moment, whoever asks."""


class Siege:
    """`answered`: how many requests were. `let_in`: what was not refused."""

    def __init__(self, on: On, cluster: SecuredChaosCluster) -> None:
        self._topic, authority = on.topic, cluster.certificates / AUTHORITY
        members = [*cluster.state.kafka_brokers, *cluster.members(CONTROLLER)]
        certified = [m.kafka_address if m.role == CONTROLLER else m.address for m in members]
        by_password = [m.sasl_address for m in members]
        eve = partial(ClientCredentials, MECHANISM, EVE, Secret(password_of(EVE)))
        liar = partial(ClientCredentials, MECHANISM, APP, Secret(password_of(EVE)))
        self._attackers = [
            (Attacker(cluster.certificates / f"{EVE}.pem", authority), certified, False),
            (Attacker(None, authority, eve), by_password, False),
            (Attacker(None, authority, liar), by_password, True),
        ]
        self.answered = 0
        self.let_in: set[str] = set()

    async def run(self) -> None:
        """Without end; each kind of attacker at a node of its own at a time."""
        await asyncio.gather(*(self._attack(*one) for one in self._attackers))

    async def _attack(self, attacker: Attacker, addresses: list[str], is_unknown: bool) -> None:
        while True:
            for address in addresses:
                asked = attacks(self._topic, new_topic=STOLEN)
                for name, errors in (await attacker.answers(address, asked)).items():
                    self._record(f"{address} {name}: {errors}", name, errors, is_unknown=is_unknown)
                await asyncio.sleep(_PAUSE_S)

    def _record(self, what: str, name: str, errors: str, *, is_unknown: bool) -> None:
        if errors == CLOSED:
            return
        self.answered += 1
        codes = set() if errors == "none" else {int(code) for code in errors.split() if code.isdigit()}
        shows = errors == "none" and name not in SHOWS_NOTHING
        if is_unknown or shows or errors.startswith("shows") or not codes <= _REFUSED | _NOT_NOW:
            self.let_in.add(what)

    @staticmethod
    async def problems(cluster: SecuredChaosCluster) -> list[str]:
        """What they have got of what they want, as ZooKeeper has it."""

        def read() -> list[str]:
            with cluster.znodes() as zookeeper:
                topics = zookeeper.get_children("/brokers/topics")
                rules = zookeeper.get_children("/kafka-acl/Cluster")
                granted = [json.loads(zookeeper.get(f"/kafka-acl/Cluster/{name}")[0]) for name in rules]
                named = [rule["principal"] for one in granted for rule in one["acls"]]
                users = zookeeper.get_children("/config/users")
            found = [f"the topic {STOLEN} is there"] if STOLEN in topics else []
            found += [f"a rule for {principal}" for principal in named if principal != f"User:{APP}"]
            return found + (["the password of the admin was set"] if "admin" in users else [])

        return await asyncio.to_thread(read)


@asynccontextmanager
async def besieged(on: On, problems: list[str]) -> AsyncIterator[Siege | None]:
    """Within it they attack, if the cluster is secured; what they got is added to the problems."""
    cluster = on.cluster
    if not isinstance(cluster, SecuredChaosCluster):
        yield None
        return
    siege = Siege(on, cluster)
    attacking = asyncio.create_task(siege.run())
    try:
        yield siege
        assert not attacking.done(), "attackers do not end"
    finally:
        attacking.cancel()
        await asyncio.gather(attacking, return_exceptions=True)
    problems += [f"let in: {what}" for what in sorted(siege.let_in)]
    problems += await siege.problems(cluster)
    problems += await _by_command(cluster, on.topic)


async def _by_command(cluster: SecuredChaosCluster, topic: str) -> list[str]:
    """klamm's own command, by the certificate without rights."""
    bootstrap = ",".join(member.address for member in cluster.members(CONTROLLER))
    options = ["--bootstrap", bootstrap, "--command-config", str(cluster.certificates / f"{EVE}.properties")]
    done = await asyncio.to_thread(run_klamm, "topics", "delete", topic, "--yes", *options)
    return [] if done.returncode else [f"klamm topics delete {topic} was let in"]
