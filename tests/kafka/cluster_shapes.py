"""Clusters as operators set them up (`end_to_end/cluster_shapes.toml`): as a survey finds them, and to be started."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, convert

from adoption.survey import BrokerAnswers, Survey, SurveyedBroker
from cluster.model.broker import Broker, BrokerId, ControllerEpoch, ControllerId, Endpoint
from deploy.local.kafka_jars import protocol_of

_FILE: Final = Path(__file__).parents[1] / "end_to_end" / "cluster_shapes.toml"
_VERSIONS: Final = {"2.4.1": (4, 2), "2.8.2": (5, 3), "3.3.2": (6, 3), "3.9.1": (7, 4)}
"""Release -> the newest versions of LeaderAndIsr and StopReplica."""
_DEFAULTS: Final = {
    "auto.leader.rebalance.enable": "true",
    "broker.id.generation.enable": "true",
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
    "leader.imbalance.check.interval.seconds": "300",
    "leader.imbalance.per.broker.percentage": "10",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "reserved.broker.max.id": "1000",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "security.inter.broker.protocol": "PLAINTEXT",
    "ssl.client.auth": "none",
    "ssl.endpoint.identification.algorithm": "https",
    "unclean.leader.election.enable": "false",
    "zookeeper.set.acl": "false",
}
_OF_AUTHORIZER: Final = ("super.users", "allow.everyone.if.no.acl.found")
_LISTENER: Final = re.compile(r"(.+)://\[?([^\]]*)\]?:(\d+)")


class Shape(Struct, frozen=True):
    """See the head of the file. `of_broker`: what differs, by position."""

    name: str
    release: str
    brokers: int
    expect: str
    properties: Mapping[str, str]
    says: str = ""
    needs: str = ""
    chroot: str = ""
    cannot_run: str = ""
    uses_tls: bool = False
    of_broker: tuple[Mapping[str, str], ...] = ()

    def id(self, position: int) -> int:
        """The id of a broker; where ZooKeeper draws it, above the reserved ones."""
        given = self._given(position).get("broker.id", str(position + 1))
        return (
            int(self.properties.get("reserved.broker.max.id", "1000")) + position + 1 if given == "-1" else int(given)
        )

    def filled_in(self, position: int, values: Mapping[str, str]) -> dict[str, str]:
        """The settings of a broker. `values`: by placeholder."""
        found = dict(self._given(position))
        for placeholder, value in {"{ID}": str(position + 1), **values}.items():
            found = {key: given.replace(placeholder, value) for key, given in found.items()}
        return found

    def _given(self, position: int) -> dict[str, str]:
        own = self.of_broker[position] if position < len(self.of_broker) else {}
        return {**self.properties, **own}

    def survey(self, **rest: Any) -> Survey:
        """As `klamm adopt` would find it, where nothing but settings counts."""
        brokers = tuple(self._surveyed(position) for position in range(self.brokers))
        controller = ControllerId(brokers[0].id)
        return Survey("id", controller, ControllerEpoch(1), brokers, **rest)

    def _surveyed(self, position: int) -> SurveyedBroker:
        ports = {key: str(9092 + 10 * position + n) for n, key in enumerate(("{PORT}", "{PORT2}", "{PORT3}"))}
        given = self.filled_in(position, {"{HOST}": "127.0.0.1", **ports})
        registered = Broker(BrokerId(self.id(position)), _endpoints(given), given.get("broker.rack"))
        leader_and_isr, stop_replica = _VERSIONS[self.release]
        configs = {**_DEFAULTS, "inter.broker.protocol.version": protocol_of(self.release), **given}
        # Of settings that Kafka does not know itself it tells no values either.
        hidden = frozenset(key for key in given if key.startswith("delegation.token.master") or key in _OF_AUTHORIZER)
        configs = {key: value for key, value in configs.items() if key not in hidden}
        answers = BrokerAnswers(
            {4: leader_and_isr, 5: stop_replica},
            has_authorizer="authorizer.class.name" in given,
            configs=configs,
            controller=ControllerId(self.id(0)),
            hidden=hidden,
        )
        return SurveyedBroker(registered, answers)


def shapes() -> list[Shape]:
    return convert(tomllib.loads(_FILE.read_text())["shape"], list[Shape])


def _endpoints(given: Mapping[str, str]) -> tuple[Endpoint, ...]:
    old = f"PLAINTEXT://{given.get('advertised.host.name', 'h')}:{given.get('advertised.port', '9092')}"
    listed = given.get("advertised.listeners") or given.get("listeners") or old
    pairs = [pair.partition(":") for pair in given.get("listener.security.protocol.map", "").upper().split(",")]
    protocols = {name: protocol for name, _, protocol in pairs}
    found = [match for part in listed.split(",") if (match := _LISTENER.fullmatch(part.strip()))]
    return tuple(
        Endpoint(m[2] or "h", int(m[3]), m[1].upper(), protocols.get(m[1].upper(), m[1].upper())) for m in found
    )
