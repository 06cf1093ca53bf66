"""What `klamm adopt` found in a running cluster: plain values, which `adoption.findings` examines."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from cluster.config.jaas_credentials import SERVICE_NAME
from cluster.model.broker import NO_CONTROLLER, Broker, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.sasl.mechanisms import GSSAPI
from cluster.security.kerberos_names import DEFAULT, SETTING
from cluster.znodes.adoption import Adoption
from cluster.znodes.candidates import CandidateProfile

SHOWN: Final = 5
"""So many of a list of findings are named."""
UNKNOWN_AUTHORIZER: Final = "unknown"
_CLIENT_AUTH: Final = "ssl.client.auth"
_LEADER_AND_ISR, _SINCE_2_8 = 4, 5
"""The request whose versions tell the release, and the one that came with 2.8."""


def listed(items: Sequence[object]) -> str:
    """Name the first of the items, and say how many more there are."""
    shown = ", ".join(map(str, items[:SHOWN]))
    return shown + (f" and {len(items) - SHOWN} more" if len(items) > SHOWN else "")


class BrokerAnswers(Struct, frozen=True):
    """Holds what a broker says of itself. `versions`: API key -> its highest version. `has_authorizer`: None if
    unknown.

    `configs`: its effective settings, those with the prefix of a listener among them. `hidden`: settings that are
    given, and whose values it does not tell. `no_configs`: why it tells none of its settings. `controller`: whom it
    obeys, by its metadata; -1 for nobody. `lets_control`: whether its authorizer lets this identity send what
    controllers send; None without one.
    """

    versions: Mapping[int, int] = {}
    has_authorizer: bool | None = None
    configs: Mapping[str, str] = {}
    controller: ControllerId = NO_CONTROLLER
    hidden: frozenset[str] = frozenset()
    no_configs: str = ""
    lets_control: bool | None = None


class SurveyedBroker(Struct, frozen=True):
    """A registered broker; `answers` None if it could not be asked, and `why_not` says why.

    `not_controllable`: why it cannot be asked at the listener at which a controller sends it requests.
    """

    registered: Broker
    answers: BrokerAnswers | None = None
    why_not: str = ""
    not_controllable: str = ""

    @property
    def id(self) -> BrokerId:
        return self.registered.id

    def config(self, key: str) -> str:
        """The effective value of a setting; empty if it is not set or unknown."""
        return "" if self.answers is None else self.answers.configs.get(key, "")

    def config_of(self, listener: str, key: str) -> str:
        """The same for one of its listeners, whose own setting comes before that of all."""
        configs = {} if self.answers is None else self.answers.configs
        own = configs.get(f"listener.name.{listener.lower()}.{key}")
        return configs.get(key, "") if own is None else own

    def hides(self, key: str) -> bool:
        """Whether it has this setting, and does not tell its value."""
        return self.answers is not None and key in self.answers.hidden

    @property
    def authorizer(self) -> str:
        """The class of its authorizer; empty if it has none, UNKNOWN_AUTHORIZER if it does not tell."""
        named = self.config("authorizer.class.name")
        has_one = self.answers is not None and self.answers.has_authorizer
        return named or (UNKNOWN_AUTHORIZER if has_one else "")

    @property
    def inter_broker_listener(self) -> str:
        """The name under which it looks for other brokers, and for the controller unless it has a control plane.

        Source: Kafka KafkaConfig.getInterBrokerListenerNameAndSecurityProtocol.
        """
        named = self.config("inter.broker.listener.name") or self.config("security.inter.broker.protocol")
        return named.upper() or "PLAINTEXT"

    @property
    def control_plane_listener(self) -> str:
        """The name of its own listener for controllers; empty if it has none."""
        return self.config("control.plane.listener.name").upper()

    @property
    def control_endpoint(self) -> Endpoint | None:
        """The endpoint where a controller sends it requests; None if it has no such listener."""
        return self.registered.endpoint(self.control_plane_listener or self.inter_broker_listener)

    def principal_mapping(self, listener: str) -> str:
        """The rules by which it names the users of certificates at a listener; DEFAULT if it has none."""
        return self.config_of(listener, "ssl.principal.mapping.rules") or "DEFAULT"

    def kerberos_mapping(self, listener: str) -> str:
        """The rules by which it names the users of Kerberos principals at a listener; DEFAULT if it has none."""
        return self.config_of(listener, SETTING) or DEFAULT

    def kerberos_service(self, listener: str) -> str:
        """The first component of brokers' principals at a listener; empty if its login module has it."""
        return self.config_of(listener, SERVICE_NAME)

    def mechanisms(self, endpoint: Endpoint) -> tuple[str, ...]:
        """The SASL mechanisms of a listener, by default GSSAPI; none of one without SASL."""
        if not endpoint.has_sasl:
            return ()
        enabled = self.config_of(endpoint.listener, "sasl.enabled.mechanisms") or GSSAPI
        return tuple(sorted(name.strip() for name in enabled.split(",") if name.strip()))

    def client_auth(self, endpoint: Endpoint) -> str:
        """Say which certificate it demands of the clients of a listener: none, requested or required.

        Of users with SASL only the setting of the listener itself demands one, from 2.8 on (KIP-684).
        """
        if not endpoint.has_tls:
            return "none"
        if not endpoint.has_sasl:
            return self.config_of(endpoint.listener, _CLIENT_AUTH).lower() or "none"
        own = (
            "" if self._is_older_than_2_8 else self.config(f"listener.name.{endpoint.listener.lower()}.{_CLIENT_AUTH}")
        )
        return own.lower() or "none"

    def has_own_authorities(self, listener: str) -> bool:
        """Whether a listener of it trusts other authorities than the process does, by a trust store of its own."""
        prefix = f"listener.name.{listener.lower()}.ssl.truststore."
        given = () if self.answers is None else (*self.answers.configs, *self.answers.hidden)
        return any(key.startswith(prefix) for key in given)

    @property
    def _is_older_than_2_8(self) -> bool:
        return self.answers is not None and self.answers.versions.get(_LEADER_AND_ISR, -1) < _SINCE_2_8


class SurveyedCandidate(Struct, frozen=True):
    """`address`: for klamm's commands. `profile`: None if it says nothing of itself, or what it says is `malformed`."""

    id: ControllerId
    address: str
    profile: CandidateProfile | None = None
    malformed: str = ""


class Survey(Struct, frozen=True):
    """`controller`: by `/controller`, -1 for none. `candidates`: those of klamm.

    `absent`: brokers that are not registered -> how many replicas are assigned to them. `malformed`: path -> why.
    `not_writable`, `not_readable`: znodes that this identity may not change, or read. `is_migrating`: a migration to
    KRaft has begun. `has_credentials`: whether ZooKeeper was asked under an identity.
    """

    cluster_id: str
    controller: ControllerId
    controller_epoch: ControllerEpoch
    brokers: tuple[SurveyedBroker, ...]
    candidates: Mapping[ControllerId, SurveyedCandidate] = {}
    adoption: Adoption | None = None
    topics: int = 0
    partitions: int = 0
    absent: Mapping[BrokerId, int] = {}
    deleting: tuple[str, ...] = ()
    reassigning: tuple[str, ...] = ()
    malformed: Mapping[str, str] = {}
    not_writable: tuple[str, ...] = ()
    not_readable: tuple[str, ...] = ()
    is_migrating: bool = False
    has_credentials: bool = False

    @property
    def is_governed_by_klamm(self) -> bool:
        return self.controller in self.candidates

    @property
    def is_leaderless(self) -> bool:
        """Whether nobody elects leaders: `/controller` is missing, or names whom is not registered any more."""
        return not self.is_governed_by_klamm and self.controller not in {int(broker.id) for broker in self.brokers}

    @property
    def asked(self) -> tuple[SurveyedBroker, ...]:
        """The brokers that answered and said what their settings are."""
        return tuple(broker for broker in self.brokers if broker.answers is not None and not broker.answers.no_configs)
