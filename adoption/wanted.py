"""What the controllers of a cluster have to be like, by what its brokers are; for the commands and for the checks.

Pure functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from adoption.survey import Survey, SurveyedBroker
from cluster.model import bounds
from cluster.model.broker import BrokerId
from cluster.model.listeners import DEFAULT_CONTROL_LISTENER
from cluster.model.protocol_version import ProtocolVersion
from cluster.security.acls import ACL_AUTHORIZERS
from controller.candidate_profile import DECIDING_SETTINGS

FIND_BY_REGISTRATION: Final = ProtocolVersion((3, 0), 0)
"""From here on brokers find a controller otherwise than under `/brokers/ids` at a controlled shutdown."""
_SET_ACL: Final = "zookeeper.set.acl"
_NO_CONTROL_PLANE: Final = "KLAMM-CONTROL"
DEFAULT_MAPPING: Final = "DEFAULT"
AUTHENTICATION: Final = ("none", "requested", "required")
"""From the weakest."""
INTER_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_OF_SASL: Final = (
    INTER_BROKER_MECHANISM,
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.sub.claim.name",
)
ALLOW_UNLISTED: Final = "allow.everyone.if.no.acl.found"
TLS_PROTOCOLS: Final = ("SSL", "SASL_SSL")


class AuthorizerKind(Enum):
    """How brokers authorise: not at all, by access control lists as klamm does, or otherwise."""

    NONE = "none"
    ACL = "acl"
    OTHER = "other"


class WantedListener(Struct, frozen=True):
    """A listener that brokers have; `brokers`: which. `client_auth`: the strictest of theirs.

    `principal_mapping`: the rules by which they name the users of certificates. `mechanisms`: of SASL, all of theirs.
    `has_own_authorities`: whether it has a trust store of its own. `kerberos_mapping`: the rules by which
    they name the users of principals; `kerberos_service`: the first component of their own; empty if their login
    modules have it.
    """

    name: str
    security_protocol: str
    client_auth: str
    brokers: tuple[BrokerId, ...]
    principal_mapping: str = DEFAULT_MAPPING
    mechanisms: tuple[str, ...] = ()
    has_own_authorities: bool = False
    kerberos_mapping: str = DEFAULT_MAPPING
    kerberos_service: str = ""


class Wanted(Struct, frozen=True):
    """`protocol`: the lowest of the brokers; None if none is known. `control_plane_listener`: empty if any will do.

    `needs_certificate`: whether brokers demand one of whom sends them control requests. `authenticates`: whether a
    listener demands one of its clients, or SASL. `settings`: by which controllers decide -> the values that brokers
    have, the one to take first. `authorizer`: how brokers authorise. `allows_unlisted`: whether it may let everyone do
    what there is no rule about. `zookeeper_tls`: whether they speak TLS to ZooKeeper. `own_settings`: those by which
    they authenticate themselves, and tokens.
    """

    protocol: ProtocolVersion | None
    listeners: tuple[WantedListener, ...]
    inter_broker_listener: str
    control_plane_listener: str
    needs_certificate: bool
    authenticates: bool
    identifies_hosts: bool
    racks: tuple[str, ...]
    registers_as_broker: bool
    settings: Mapping[str, tuple[str, ...]]
    authorizer: AuthorizerKind = AuthorizerKind.NONE
    allows_unlisted: bool = False
    zookeeper_tls: bool = False
    own_settings: Mapping[str, str] = {}

    @property
    def has_tls(self) -> bool:
        """Whether any listener has certificates."""
        return any(listener.security_protocol in TLS_PROTOCOLS for listener in self.listeners)

    @property
    def guards_grpc(self) -> bool:
        """Whether klamm's own listeners need TLS and certificates, as rights need to know who calls.

        Where brokers know nobody, they have given their rights to ANONYMOUS, as whom klamm's commands come, too.
        """
        return self.authorizer is not AuthorizerKind.NONE and (self.has_tls or self.authenticates)

    @property
    def secures_metrics(self) -> bool:
        """Whether the port for metrics needs TLS: brokers with TLS ask who their clients are."""
        asks = self.authenticates or self.authorizer is not AuthorizerKind.NONE
        return asks and any(listener.security_protocol in TLS_PROTOCOLS for listener in self.served)

    @property
    def served(self) -> tuple[WantedListener, ...]:
        """The listeners at which controllers have to answer: all of them, unless clients are refused anyway."""
        if self.authorizer is not AuthorizerKind.OTHER:
            return self.listeners
        return tuple(one for one in self.listeners if one.name in self.of_brokers)

    @property
    def of_brokers(self) -> frozenset[str]:
        """The names of the listeners by which brokers look for the controller."""
        return frozenset({self.inter_broker_listener, self.control_plane_listener})

    def listener(self, name: str) -> WantedListener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)


def protocol_of(broker: SurveyedBroker) -> ProtocolVersion | None:
    """Its `inter.broker.protocol.version`; None if unknown or newer than any in ZooKeeper mode."""
    try:
        return ProtocolVersion.parse(broker.config("inter.broker.protocol.version"))
    except ValueError:
        return None


def wanted(survey: Survey) -> Wanted:
    """Choose what suits all brokers that answered; where they differ `adoption.findings` refuses or says so."""
    brokers = survey.asked
    protocols = [p for broker in brokers if (p := protocol_of(broker)) is not None]
    listeners = tuple(_listeners(survey.brokers))
    control = [(broker, e) for broker in brokers if (e := broker.control_endpoint) is not None]
    return Wanted(
        protocol=min(protocols, key=lambda protocol: protocol.exact, default=None),
        listeners=listeners,
        inter_broker_listener=_first((broker.inter_broker_listener for broker in brokers), "PLAINTEXT"),
        control_plane_listener=_control_plane(brokers, {listener.name for listener in listeners}),
        needs_certificate=any(broker.client_auth(endpoint) == "required" for broker, endpoint in control),
        authenticates=any(one.client_auth == "required" or one.mechanisms for one in listeners),
        identifies_hosts=all(
            broker.config_of(e.listener, "ssl.endpoint.identification.algorithm") or not e.has_tls
            for broker, e in control
        ),
        racks=tuple(sorted({b.registered.rack for b in survey.brokers if b.registered.rack is not None})),
        registers_as_broker=any(protocol < FIND_BY_REGISTRATION for protocol in protocols),
        authorizer=_authorizer(brokers),
        allows_unlisted=any(b.hides(ALLOW_UNLISTED) or b.config(ALLOW_UNLISTED) == "true" for b in brokers),
        own_settings=_own_settings(brokers, uses_sasl=any(endpoint.has_sasl for _, endpoint in control)),
        zookeeper_tls=any(broker.config("zookeeper.ssl.client.enable") == "true" for broker in brokers),
        settings={key: found for key in DECIDING_SETTINGS if (found := _values(brokers, key))},
    )


def _authorizer(brokers: Sequence[SurveyedBroker]) -> AuthorizerKind:
    """Name the kind that they have; brokers that differ are refused."""
    found = {broker.authorizer for broker in brokers} - {""}
    if not found:
        return AuthorizerKind.NONE
    return AuthorizerKind.ACL if found <= set(ACL_AUTHORIZERS) else AuthorizerKind.OTHER


def _first(values: Iterable[str], default: str) -> str:
    return next(iter(values), default)


def _listeners(brokers: Sequence[SurveyedBroker]) -> Iterable[WantedListener]:
    """List the listeners of any broker: each looks for the controller, for its clients, under the names of all its
    own.
    """
    endpoints = [(broker, endpoint) for broker in brokers for endpoint in broker.registered.endpoints]
    for name in dict.fromkeys(endpoint.listener for _, endpoint in endpoints):
        of_it = [(broker, endpoint) for broker, endpoint in endpoints if endpoint.listener == name]
        demands = [broker.client_auth(endpoint) for broker, endpoint in of_it]
        strictest = max(demands, key=lambda demand: AUTHENTICATION.index(demand) if demand in AUTHENTICATION else 0)
        ids = tuple(broker.id for broker, _ in of_it)
        asked = [broker for broker, _ in of_it if broker.answers is not None]
        yield WantedListener(
            name,
            of_it[0][1].security_protocol,
            strictest,
            ids,
            _first((broker.principal_mapping(name) for broker in asked), DEFAULT_MAPPING),
            tuple(sorted({m for b, e in of_it if b.answers is not None for m in b.mechanisms(e)})),
            any(broker.has_own_authorities(name) for broker, _ in of_it),
            _first((broker.kerberos_mapping(name) for broker in asked), DEFAULT_MAPPING),
            _first((service for broker in asked if (service := broker.kerberos_service(name))), ""),
        )


def _control_plane(brokers: Sequence[SurveyedBroker], names: set[str]) -> str:
    found = _first((b.control_plane_listener for b in brokers if b.control_plane_listener), "")
    # klamm would take a listener of this name for the control plane, which for brokers it is not.
    return _NO_CONTROL_PLANE if not found and DEFAULT_CONTROL_LISTENER in names else found


def _own_settings(brokers: Sequence[SurveyedBroker], *, uses_sasl: bool) -> dict[str, str]:
    """Read by what brokers authenticate themselves; of those that do not, the default of the mechanism says nothing."""
    keys = [key for key in _OF_SASL if uses_sasl or key != INTER_BROKER_MECHANISM]
    return {key: value for key in keys if (value := _first((v for b in brokers if (v := b.config(key))), ""))}


def _values(brokers: Sequence[SurveyedBroker], key: str) -> tuple[str, ...]:
    """The values of a setting, the most careful one first; none where no broker says."""
    found = {value.strip().lower() for broker in brokers if (value := broker.config(key))}
    if key == _SET_ACL:
        return ("true",) if "true" in found else ()
    numbers = all(bounds.parse_number(bounds.OFFSET, value) is not None for value in found)
    return tuple(sorted(found, key=int, reverse=True) if numbers else sorted(found))
